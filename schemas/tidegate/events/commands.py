"""Commands: what people and deciders ask the executors to do."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tidegate.events.base import Caused, Command, Count, Text
from tidegate.events.facts import VacuumKind


class SavepointRequested(Command, frozen=True):
    """Write a Hudi savepoint on `instant`, or on the newest completed one where it is none."""

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "instant",
        "caused_by",
        "said_by",
        "occurred_at",
    )

    instant: Text | None = None
    requested_by: Text
    comment: str = ""


class RestoreRequested(Command, frozen=True):
    """Roll the table back to a savepoint. It destroys every later commit, on purpose.

    With `plan_only` the plan is published and nothing is changed. With `expected_plan` the restore
    is refused unless the plan made from the table as it is now has that id.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "savepoint",
        "plan_only",
        "caused_by",
        "said_by",
        "occurred_at",
    )

    savepoint: Text
    requested_by: Text
    reason: Text
    plan_only: bool = False
    expected_plan: Text | None = None


class CleaningReleased(Caused, Command, frozen=True):
    """Every hold of a vacuum is gone: remove what that vacuum made obsolete.

    It carries the vacuum's own snapshot, never a list of paths to remove: the cleaner finds those
    in the directory as it is.
    """

    kind: VacuumKind
    partition: Text | None = None
    directories: tuple[Text, ...] = Field(min_length=1)
    min_write_id: Count
    max_write_id: Count
    valid_write_ids: Text
    own_transaction_id: int | None = None
