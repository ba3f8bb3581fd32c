"""Commands: what people and the coordinator request of the executors."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from tidegate.events.base import Caused, Command, ReasonedRequest, Request
from tidegate.events.facts import VacuumKind
from tidegate.events.limits import (
    MAX_DIRECTORIES,
    Count,
    DirectoryName,
    HudiInstant,
    Id,
    LongText,
    Snapshot,
    Text,
)
from tidegate.events.names import Name
from tidegate.events.savepoint_marks import (
    PREFIX,
    LifetimeSeconds,
    PolicyName,
    SavepointMark,
    TierName,
)


class SavepointRequested(Request, frozen=True):
    """Write a Hudi savepoint on `instant`, or on the newest completed instant if it is None.

    A policy names itself and the `tiers` that the savepoint is for; a person may give a lifetime.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "instant",
        "caused_by",
        "source",
    )

    instant: HudiInstant | None = None
    requested_by: Name
    comment: LongText = ""
    policy: PolicyName | None = None
    tiers: tuple[TierName, ...] = Field(default=(), max_length=20)
    lifetime_seconds: LifetimeSeconds | None = None

    @model_validator(mode="after")
    def _has_no_mark(self) -> Self:
        if self.comment.startswith(PREFIX):
            raise ValueError(f"comment must not begin with {PREFIX!r}: so do savepoints' own marks")
        return self

    @property
    def mark(self) -> SavepointMark | None:
        """The mark in the savepoint's comment; None for a person's without a lifetime."""
        if self.policy is None and self.lifetime_seconds is None:
            return None
        return SavepointMark(
            policy=self.policy,
            tiers=self.tiers,
            decided_at=self.occurred_at,
            lifetime_seconds=self.lifetime_seconds,
        )

    @property
    def asked_by(self) -> str:
        """The name in the request."""
        return self.requested_by

    @property
    def asked_why(self) -> str | None:
        """The comment, if there is one."""
        return self.comment or None


class SavepointsCheckRequested(Caused, Command, frozen=True):
    """Check a table's savepoints: make those that are due, remove those that may go.

    The writer decides it from the table's own timeline and the rules of its settings. `wanted` are
    savepoints to which a restore may be requested soon: they stay. With `condemned`, the outcome
    names the table's newest savepoint before that commit. `commits` were published and are looked
    up on the timeline. `attempt` counts the table's checks.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "caused_by", "attempt")

    attempt: Count
    wanted: tuple[HudiInstant, ...] = Field(default=(), max_length=100)
    condemned: HudiInstant | None = None
    commits: tuple[HudiInstant, ...] = Field(default=(), max_length=100)
    measure: bool = False


class RestoreRequested(ReasonedRequest, frozen=True):
    """Roll the table back to a savepoint. This destroys every later commit.

    With `plan_only` the plan is published and nothing is changed. With `expected_plan` the restore
    is refused unless the plan made from the table as it is now has that id. `seen_up_to` is the
    latest instant that the requester knew of: the request covers no commit after it. With
    `needs_approval` it is refused where the settings ask for no approval.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "savepoint",
        "plan_only",
        "caused_by",
        "source",
    )

    savepoint: HudiInstant
    plan_only: bool = False
    expected_plan: Text | None = None
    seen_up_to: HudiInstant | None = None
    needs_approval: bool = False

    @property
    def asked_why(self) -> str | None:
        """The reason in the request."""
        return self.reason


class CleaningReleased(Caused, Command, frozen=True):
    """No reader needs a vacuum's inputs any more: remove what that vacuum made obsolete.

    The command carries the vacuum's snapshot, never a list of paths to remove: the cleaner derives
    those from the current listing. With `after_expiry` something that the vacuum waited for ended
    because it expired: its reader may be alive, only stalled. `last_lock_id` and
    `last_transaction_id` are the highest that it waited for: the cleaner asks the Metastore whether
    any up to these is still held or open.
    """

    kind: VacuumKind
    partition: Text | None = None
    directories: tuple[DirectoryName, ...] = Field(min_length=1, max_length=MAX_DIRECTORIES)
    min_write_id: Id
    max_write_id: Id
    valid_write_ids: Snapshot
    own_transaction_id: Id | None = None
    after_expiry: bool = False
    last_lock_id: Id | None = None
    last_transaction_id: Id | None = None
