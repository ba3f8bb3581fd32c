"""Cleanings of Hive tables: commands, people's holds, quarantine, and the outcomes.

No reader ever reads a row of an aborted write, so its removal waits for nothing. Nothing but
directories whose write ids have all aborted may go by that command: what a base replaces is another
cleaning's to decide (HIVE-25502 lost data by mixing the two).

A person's hold on a table is not one of the locks and transactions that a vacuum waits for: while
there is one, nothing of the table is cleaned.

Where a table's cleaning quarantines, obsolete directories are moved into a hidden directory next to
them. They can be put back until they are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import ClassVar, Final, Self, TypeVar

from pydantic import Field, model_validator

from tidegate.events.base import Answer, Caused, Command, Event, ReasonedRequest, Refusal, Verdict
from tidegate.events.facts import VacuumKind
from tidegate.events.fields import (
    MAX_DIRECTORIES,
    ContentHash,
    Count,
    DirectoryName,
    Id,
    Message,
    Path,
    Snapshot,
    Text,
    derived_id,
)

ANYWHERE: Final = "unknown"
"""The location of a hold: it is on a table's name, wherever that is."""
MAX_NAME_BYTES: Final = 400_000
"""Bytes of names in one part: with everything else, well within a broker's default of 1 MiB."""
_OVERHEAD: Final = 4
"""Bytes of a name's length in Avro, at most."""
T = TypeVar("T")


class CleaningMode(StrEnum):
    """What a cleaning does with obsolete directories."""

    DELETE = "delete"
    QUARANTINE = "quarantine"


class _OfVacuum(Event, frozen=True):
    """The fields of a vacuum's cleaning, which its deferral repeats."""

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


class CleaningReleased(_OfVacuum, Caused, Command, frozen=True):
    """No reader needs a vacuum's inputs any more: remove what that vacuum made obsolete.

    The command carries the vacuum's snapshot, never a list of paths to remove: the cleaner derives
    those from the current listing. With `after_expiry` something that the vacuum waited for ended
    because it expired: its reader may be alive, only stalled. `last_lock_id` and
    `last_transaction_id` are the highest that it waited for: the cleaner asks the Metastore whether
    any up to these is still held or open.
    """


class AbortedCleaningReleased(Caused, Command, frozen=True):
    """Remove the directories whose write ids have all aborted, if they are those of the fact."""

    partition: Text | None = None
    valid_write_ids: Snapshot
    content: ContentHash


class DirectoriesOutcome(Answer, frozen=True):
    """An outcome that names directories, with the number and the size of the files in them.

    Where the names do not fit into one message there are several, with numbers from 1. Each has the
    counts of its own directories; `PartsJoiner` puts them together.
    """

    partition: Text | None = None
    directories: tuple[Text, ...]
    files: Count
    bytes: Count
    part: Count | None = None
    parts: Count | None = None

    @model_validator(mode="after")
    def _has_a_place_among_the_parts(self) -> Self:
        whole = self.part is None and self.parts is None
        if not whole and not 1 <= (self.part or 0) <= (self.parts or 0):
            raise ValueError(f"part {self.part} of {self.parts} is not a part")
        return self

    def content_id(self) -> str:
        """The id derived from the cause; a further part has one of its own."""
        if self.part is None or self.part == 1:
            return super().content_id()
        return derived_id(type(self).__name__, self.caused_by or "", f"part {self.part}")


class CleaningStarted(DirectoriesOutcome, frozen=True):
    """The directories about to be removed, published before that so that a crash can't hide it.

    With the mode `quarantine` it is moved aside and kept for `keep_ms` before it is removed.
    """

    mode: Text = "delete"
    keep_ms: Count | None = None


class CleaningProgressed(Answer, frozen=True):
    """How far a cleaning is. Published at most every twenty seconds."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "directories_done")

    partition: Text | None = None
    directories_done: Count
    directories_total: Count
    files_done: Count
    files_total: Count


class DirectoriesCleaned(DirectoriesOutcome, frozen=True):
    """Nothing that the vacuum made obsolete is left. This run removed `directories`.

    `superseded_by` names the directories of later vacuums, where their cleaning was faster. With
    the mode `quarantine` the directories were moved aside, to be removed after `keep_ms`.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    duration_ms: Count
    superseded_by: tuple[Text, ...] = ()
    mode: Text = "delete"
    keep_ms: Count | None = None


class CleaningRefused(Refusal, frozen=True):
    """Cleaning was refused and this attempt removed nothing.

    An earlier attempt may have removed directories, if the table changed during it.
    """

    partition: Text | None = None


class CleaningDeferred(_OfVacuum, Answer, frozen=True):
    """A released cleaning can't be done now: it is released again later.

    The second source contradicts the event (`reason` is `not-confirmed`, `message` has both
    statements), or did not answer (`second-source-away`): the cleaning is released again after
    `retry_after_ms`. It repeats the command for that. Directories that went before the
    contradiction arose stay removed.
    """

    reason: Text
    message: Message
    retry_after_ms: Count
    vacuum: Text


class HoldRequest(ReasonedRequest, frozen=True):
    """A person's word on the cleaning of a table."""

    identified_by: ClassVar[tuple[str, ...]] = ("table", "caused_by", "source")

    location: Path = ANYWHERE


class CleaningHoldRequested(HoldRequest, frozen=True):
    """Clean nothing of the table until the hold is removed.

    A second hold replaces the first: a table has one or none.
    """


class CleaningHoldRemovalRequested(HoldRequest, frozen=True):
    """Clean the table again, and what was asked for meanwhile."""


class CleaningHeld(Answer, frozen=True):
    """The table is held: no cleaning of it is running, and none is issued."""

    means: ClassVar[Verdict] = Verdict.DONE


class CleaningHoldRemoved(Answer, frozen=True):
    """The table is not held any more; `released` vacuums are cleaned now."""

    means: ClassVar[Verdict] = Verdict.DONE

    released: Count


class CleaningUndoRequested(ReasonedRequest, frozen=True):
    """Put back what a cleaning moved into quarantine.

    `cleaning` is the id of the CleaningReleased that caused it. With `plan_only` the plan is
    published and nothing is changed.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "partition",
        "cleaning",
        "plan_only",
        "caused_by",
        "source",
    )

    cleaning: Text
    partition: Text | None = None
    plan_only: bool = False


class QuarantineRemovalRequested(Caused, Command, frozen=True):
    """The quarantine of a cleaning's directories has ended: remove them for good."""

    cleaning: Text
    partition: Text | None = None


class CleaningUndoPlanned(DirectoriesOutcome, frozen=True):
    """What an undo would put back; nothing was changed."""

    means: ClassVar[Verdict] = Verdict.DONE

    cleaning: Text


class CleaningUndone(DirectoriesOutcome, frozen=True):
    """Every directory that the cleaning moved into quarantine is back in its place."""

    means: ClassVar[Verdict] = Verdict.DONE

    cleaning: Text
    duration_ms: Count


class CleaningUndoRefused(Refusal, frozen=True):
    """The undo was refused; this attempt put nothing back."""

    cleaning: Text
    partition: Text | None = None


class QuarantineRemoved(DirectoriesOutcome, frozen=True):
    """Nothing of the cleaning is in quarantine any more. This run removed `directories`."""

    means: ClassVar[Verdict] = Verdict.DONE

    cleaning: Text
    duration_ms: Count


def split_by_names(named: Iterable[tuple[str, T]]) -> list[list[T]]:
    """Group items so that the names of each group fit into one part; at least one group."""
    groups: list[list[T]] = [[]]
    size = 0
    for name, item in named:
        size += len(name.encode(errors="replace")) + _OVERHEAD
        if size > MAX_NAME_BYTES and groups[-1]:
            groups.append([])
            size = len(name.encode(errors="replace")) + _OVERHEAD
        groups[-1].append(item)
    return groups


class PartsJoiner:
    """Puts the parts of outcomes together, as they come from a partition of the topic.

    Parts follow one another, unless a service was killed between them: what follows is then a
    repeat from the first part, and the parts that were there before it do not become whole.
    """

    def __init__(self) -> None:
        """Begin without any part."""
        self._pending: dict[tuple[str, str | None], list[DirectoriesOutcome]] = {}

    def add(self, outcome: DirectoriesOutcome) -> DirectoriesOutcome | None:
        """Take the next part; the whole outcome if it was the last one, else None.

        `follows` says beforehand whether this part continues what came before.
        """
        if outcome.part is None:
            return outcome
        if outcome.part == 1:
            self._pending[_key(outcome)] = [outcome]
        elif self.follows(outcome):
            self._pending[_key(outcome)].append(outcome)
        else:
            return None
        found = self._pending[_key(outcome)]
        if len(found) < (outcome.parts or 0):
            return None
        return _joined(self._pending.pop(_key(outcome)))

    def follows(self, outcome: DirectoriesOutcome) -> bool:
        """Whether a part is the first one, or the next of those that came before."""
        before = self._pending.get(_key(outcome), [])
        same = all(part.parts == outcome.parts for part in before)
        return outcome.part in (None, 1) or (same and outcome.part == len(before) + 1)


def _key(outcome: DirectoriesOutcome) -> tuple[str, str | None]:
    return type(outcome).__name__, outcome.caused_by


def _joined(parts: Sequence[DirectoriesOutcome]) -> DirectoriesOutcome:
    first = parts[0]
    fields = first.model_dump() | {
        "directories": tuple(name for part in parts for name in part.directories),
        "files": sum(part.files for part in parts),
        "bytes": sum(part.bytes for part in parts),
        "part": None,
        "parts": None,
    }
    return type(first).model_validate(fields)
