"""Savepoints of Hudi tables: the requests and their outcomes, and the mark of a savepoint.

Hudi's metadata of a savepoint has room for a user and a comment, and no other. The mark is the
beginning of the comment: it lives and dies with the savepoint, whatever is lost elsewhere.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Self

from pydantic import AwareDatetime, Field, model_validator

from tidegate.errors import validation
from tidegate.events.base import (
    Alarm,
    Answer,
    Caused,
    Command,
    ReasonedRequest,
    Refusal,
    Request,
    Value,
    Verdict,
)
from tidegate.events.fields import Count, ErrorText, HudiInstant, LongText, Message, Name, Text

PREFIX: Final = "[tidegate "
"""What a mark begins with; the comment of a request must not."""
_MARK: Final = re.compile(r"\[tidegate ([a-z]+=\S+(?: [a-z]+=\S+)*)\](?: |$)")
PolicyName = Annotated[str, Field(pattern=validation.POLICY)]
"""Letters, digits and . _ -, because it stands in a mark."""
LifetimeSeconds = Annotated[int, Field(ge=0, le=100 * 366 * 86_400)]
"""At most a hundred years: a time that is added to another one."""
TierName = Annotated[str, Field(pattern=validation.TIER)]
"""A tier of a policy, such as daily."""


class SavepointMark(Value, frozen=True):
    """Who made a savepoint and how long it is kept.

    With a policy, its settings say how long; a person's request says `lifetime_seconds`.
    `decided_at` is the broker's time of what caused a policy's request; of a person's request the
    requester's.
    """

    policy: PolicyName | None = None
    tiers: tuple[TierName, ...] = Field(default=(), max_length=20)
    decided_at: AwareDatetime
    lifetime_seconds: LifetimeSeconds | None = None

    @property
    def lifetime(self) -> timedelta | None:
        """How long a person wants the savepoint kept; None: no such wish."""
        return None if self.lifetime_seconds is None else timedelta(seconds=self.lifetime_seconds)

    def before(self, comment: str) -> str:
        """The comment with this mark at its beginning."""
        fields = {
            "policy": self.policy,
            "tiers": ",".join(self.tiers) or None,
            "decided": self.decided_at.isoformat(),
            "lifetime": None if self.lifetime_seconds is None else f"{self.lifetime_seconds}s",
        }
        text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
        return f"[tidegate {text}] {comment}".rstrip()

    @classmethod
    def parse(cls, comment: str) -> tuple[Self | None, str]:
        """The mark at the beginning of a comment, and the rest; (None, comment) without a mark.

        A savepoint with an invalid mark counts as a person's.
        """
        found = _MARK.match(comment)
        if found is None:
            return None, comment
        fields = dict(part.split("=", 1) for part in found[1].split(" "))
        try:
            mark = cls.model_validate(
                {
                    "policy": fields.pop("policy", None),
                    "tiers": tuple(filter(None, fields.pop("tiers", "").split(","))),
                    "decided_at": fields.pop("decided"),
                    "lifetime_seconds": _seconds(fields.pop("lifetime", None)),
                    **fields,  # unknown ones are refused
                }
            )
        except (ValueError, KeyError):
            return None, comment
        return mark, comment[found.end() :]


def _seconds(text: str | None) -> int | None:
    return None if text is None else int(text.removesuffix("s"))


class SavepointRequested(Request, frozen=True):
    """Write a Hudi savepoint on `instant`, or on the newest completed instant if it is None.

    A policy names itself and the `tiers` that the savepoint is for; a person may give a lifetime.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "instant", "caused_by", "source")

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


class SavepointCreated(Answer, frozen=True):
    """The savepoint is on the timeline; `already_there` if it was before this command.

    An earlier attempt of the command is recognised by the savepoint's mark, which a person's
    savepoint without a lifetime does not have: its repeat says `already_there`.

    `policy`, `tiers`, `decided_at` and `lifetime_seconds` are what its mark on the timeline says;
    the tiers with those of the request, if that is the same policy's, and a policy's savepoint with
    the lifetime that a person requests. None of them: it stays until a person removes it. `bytes`
    are those of all its files, where they were listed. `derived_from` is the savepoint of the table
    from which it was derived; else `listed_because` says why not.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")
    means: ClassVar[Verdict] = Verdict.DONE

    instant: Text
    partitions: Count
    files: Count
    already_there: bool = False
    duration_ms: Count
    bytes: Count | None = None
    policy: Text | None = None
    tiers: tuple[Text, ...] = ()
    decided_at: AwareDatetime | None = None
    lifetime_seconds: LifetimeSeconds | None = None
    derived_from: Text | None = None
    listed_because: Text | None = None


class SavepointRejected(Refusal, frozen=True):
    """No savepoint was written."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")

    instant: Text | None = None


class SavepointsChecked(Answer, frozen=True):
    """The retention of a table's savepoints was checked; its own outcomes precede it.

    `savepoints` are those on the timeline now; `unowned` name a policy that no rule of the table
    owns: they stay. `next_check` is when time alone may change the result; None: never. For a
    `condemned` commit that the timeline has, `newest_before` is the newest savepoint before it, and
    `later` are those of it and of later commits, which a restore needs removed. `commits` are those
    of the request. If the request asked to measure, the pinned files are those that only savepoints
    keep, each counted once.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    made: Count = 0
    removed: Count = 0
    savepoints: Count
    unowned: tuple[Text, ...] = Field(default=(), max_length=1000)
    next_check: AwareDatetime | None = None
    condemned: Text | None = None
    commits: tuple[Text, ...] = Field(default=(), max_length=100)
    newest_before: Text | None = None
    later: tuple[Text, ...] = Field(default=(), max_length=1000)
    pinned_files: Count | None = None
    pinned_bytes: Count | None = None
    oldest_at: AwareDatetime | None = None
    duration_ms: Count


class SavepointRemovalRequested(ReasonedRequest, frozen=True):
    """Remove a savepoint: Hudi may clean what only it kept. The table's rows stay as they are.

    A person may remove any savepoint. The savepoint writer removes those whose time has passed at a
    check, without such a request.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "instant", "caused_by", "source")

    instant: HudiInstant


class SavepointRemoved(Answer, frozen=True):
    """The savepoint is not on the timeline any more. `already_gone`: this attempt removed nothing.

    `files` are those that it kept; `made_by` and `made_at` are what its metadata said. None: it was
    gone, or had never been completed. `savepoints_left` are the table's others.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")
    means: ClassVar[Verdict] = Verdict.DONE

    instant: Text
    policy: Text | None = None
    tiers: tuple[Text, ...] = ()
    made_by: ErrorText | None = None
    made_at: AwareDatetime | None = None
    files: Count | None = None
    savepoints_left: Count
    already_gone: bool = False
    duration_ms: Count


class SavepointRemovalRejected(Refusal, frozen=True):
    """The savepoint was not removed."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")

    instant: Text


class CommitFlag(StrEnum):
    """Why a published commit needs the attention of people."""

    NO_SAVEPOINT_BEFORE = "no-savepoint-before"
    """It was condemned, and the table has no savepoint before it."""
    SAVEPOINT_AFTER = "savepoint-after"
    """It was condemned, and a savepoint of it or of a later commit is in the way of a restore."""
    SAVEPOINTS_AT_MAXIMUM = "savepoints-at-maximum"
    """A savepoint of it is due, but the policy has as many as `max_count` allows."""
    NOT_ON_TIMELINE = "not-on-timeline"
    """Published or condemned, and the timeline does not have it as completed: a wrong instant, or
    another table."""


class CommitFlagged(Alarm, frozen=True):
    """A commit is not on its table's timeline, or a savepoint that it needs can't be made.

    `flag` is a code of `CommitFlag`.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "flag")

    instant: Text
    flag: Text
    message: Message
