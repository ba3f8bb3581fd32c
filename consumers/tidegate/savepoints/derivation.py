"""When a savepoint can be derived from an earlier one, and from which changes. Pure.

An earlier savepoint by Tidegate records the files that a listing of every partition returned then.
A listing now returns the same for each partition that has not changed. So only the changed
partitions are listed. Completed writes name every partition that they changed in their metadata;
Hudi's own metadata table relies on that, too.

Nothing is derived if anything else may have changed a partition, or if a change may have gone
unnoticed. `InDoubt` reports the reason, and then everything is listed:

- The savepointed commit, or a write after it, is no longer on the timeline: archived, rolled back,
  or restored. Earlier commits may be archived, with three exceptions: a replacement (its groups
  would count again), a write during which another began (its log files could belong to another
  slice), and any commit if there were files of unknown instants (they would count now).
- A pending write is gone, or a completed one has changed.
- A restore or a rollback is pending or has begun since. The archiver may also have removed one: it
  retains the newest, so the newest known one must still be there.
- A write overlapped the savepointed commit: the savepoint may keep files for a restore to that
  commit that a later savepoint does not need.
- Up to version 6, log files of a pending delta commit look the same as committed ones.

Partitions that a clean touched are listed again, although a clean removes no file of an existing
savepoint.

One difference remains. Once a compaction and the delta commits that it merged are archived, a
listing can't assign their log files to a slice and includes them in both. A derived savepoint still
has the assignment from before.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Final, Self

from tidegate.bounded_json import count_of, parse_json
from tidegate.errors import FormatError, TidegateError
from tidegate.hudi.file_slice import SliceRules, instant_of_data_file
from tidegate.hudi.instant import WRITES, Action, Instant, InstantState, Layout
from tidegate.hudi.properties import TableProperties
from tidegate.hudi.timeline import Timeline

_Key = tuple[str, str]


class InDoubt(TidegateError):  # noqa: N818 - states a finding
    """A derived savepoint may differ from a listed one. The catcher lists everything instead."""


def changes_since(
    view: View, savepointed: str, properties: TableProperties, timeline: Timeline, most_derived: int
) -> tuple[list[Instant], list[Instant], set[str]]:
    """The changes from which a savepoint of a later commit on the current timeline is derived.

    Args:
        view: The table as the earlier savepoint's plan saw it.
        savepointed: The commit of the earlier savepoint.
        properties: The table's current properties.
        timeline: The table's current timeline.
        most_derived: Maximum of savepoints derived in a row; 0: none.

    Returns:
        The writes and the cleans that have completed since, and the timestamps of the compactions
        that were pending then. The partitions that these name have to be listed.

    Raises:
        InDoubt: the changes can't be determined for certain.
    """
    if view.table != (properties.version, properties.table_type):
        raise InDoubt("the table was upgraded or replaced by another one")
    if view.derived >= most_derived:
        raise InDoubt(f"{view.derived} savepoints in a row were derived")
    commit = timeline.completed_write(savepointed)
    if commit is None:
        raise InDoubt(f"commit {savepointed} is no longer on the timeline")
    then = {_key(instant): instant for instant in view.instants}
    now = {_key(instant): instant for instant in relevant_instants(timeline, properties.layout)}
    _check_overlaps(commit, properties, timeline, then)
    _check_rollbacks(then, now)
    _check_writes(view, then, now, timeline)
    if properties.layout is Layout.ONE and properties.is_merge_on_read:
        _check_logs(chain(then.values(), now.values()))
    writes = [
        write
        for write in timeline.completed_writes
        if write.timestamp > savepointed or not _was_completed(write, then)
    ]
    cleans = timeline.of_action(Action.CLEAN, InstantState.COMPLETED)
    compactions = {i.timestamp for i in then.values() if i.action is Action.COMPACTION}
    return writes, [clean for clean in cleans if not _was_completed(clean, then)], compactions


def _check_overlaps(
    commit: Instant, properties: TableProperties, timeline: Timeline, then: dict[_Key, Instant]
) -> None:
    """Check the writes that the savepoint saw; later ones are among the changes anyway."""
    later = timeline.completed_after(commit, properties.rolled_back_by_request)
    undone = {write.timestamp for write in later}
    seen = tuple(
        instant
        for instant in timeline.instants
        if _was_completed(instant, then) or instant.action is Action.COMPACTION
    )
    if overlaps(commit.timestamp, Timeline(seen), properties.layout, undone):
        raise InDoubt(f"a write overlapped commit {commit.timestamp}")


def _check_rollbacks(then: dict[_Key, Instant], now: dict[_Key, Instant]) -> None:
    for action in (Action.ROLLBACK, Action.RESTORE):
        before = {instant for instant in then.values() if instant.action is action}
        after = {instant for instant in now.values() if instant.action is action}
        if any(instant.state is not InstantState.COMPLETED for instant in before | after):
            raise InDoubt(f"a {action} is or was pending")
        if after - before:
            raise InDoubt(f"a {action} began since")
        if before and max(before, key=lambda instant: instant.timestamp) not in after:
            raise InDoubt(f"a {action} may have been archived")


def _check_writes(
    view: View, then: dict[_Key, Instant], now: dict[_Key, Instant], timeline: Timeline
) -> None:
    archived = list[Instant]()
    for key, write in then.items():
        if write.action not in WRITES:
            continue
        is_completed = write.state is InstantState.COMPLETED
        if is_completed and now.get(key, write) != write:
            raise InDoubt(f"completed write {write.timestamp} has changed")
        if key not in now:
            if not is_completed or not timeline.start or write.timestamp >= timeline.start:
                raise InDoubt(f"write {write.timestamp} is no longer on the timeline")
            archived.append(write)
    if archived:
        _check_archived(view, archived, (*then.values(), *now.values()))


def _check_archived(view: View, archived: Iterable[Instant], instants: Iterable[Instant]) -> None:
    if view.has_strangers:
        raise InDoubt("commits were archived, and there are files of unknown instants")
    begun = sorted(instant.timestamp for instant in instants if instant.action in WRITES)
    for write in archived:
        if write.action is Action.REPLACE_COMMIT:
            raise InDoubt(f"replacement {write.timestamp} was archived")
        after = bisect_right(begun, write.timestamp)
        if after < len(begun) and begun[after] <= (write.completion or ""):
            raise InDoubt(f"archived write {write.timestamp} overlapped another write")


def _check_logs(instants: Iterable[Instant]) -> None:
    kinds = {Action.DELTA_COMMIT, Action.LOG_COMPACTION}
    if any(i.action in kinds and i.state is not InstantState.COMPLETED for i in instants):
        raise InDoubt("a delta commit is or was pending: its log files look like committed ones")


def _was_completed(instant: Instant, then: dict[_Key, Instant]) -> bool:
    known = then.get(_key(instant))
    return known is not None and known.state is InstantState.COMPLETED


def _key(instant: Instant) -> _Key:
    return instant.timestamp, "write" if instant.action in WRITES else instant.action


def overlaps(commit: str, timeline: Timeline, layout: Layout, undone: AbstractSet[str]) -> bool:
    """Whether the writes that a restore leaves differ from those requested up to the commit.

    Also true if a write began before the commit completed: its slices may have older log files.

    Always false in layout 1. There, the completion time is the file's modification time, which is
    meaningless in a copied table, so a savepoint must not omit files because of it.
    """
    if layout is Layout.ONE:
        return False
    end = timeline.completion_of(commit)
    return any(
        (write.timestamp <= commit) == (write.timestamp in undone) or commit < write.timestamp < end
        for write in timeline.writes
        if write.state is InstantState.COMPLETED or write.action is Action.COMPACTION
    )


KEY: Final = "tidegate.view"
_FORMAT: Final = 1
_LARGEST: Final = 16 * 1024 * 1024
"""In bytes; enough for a timeline of 300,000 instants."""
_RELEVANT: Final = WRITES | {Action.CLEAN, Action.ROLLBACK, Action.RESTORE}


@dataclass(frozen=True, slots=True)
class View:
    """The timeline that the plan saw, and the plan's counts."""

    table: tuple[int, str]
    """The table's version and type."""
    layout: Layout
    instants: frozenset[Instant]
    """Writes, cleans, rollbacks and restores; in layout 1 without their completion times."""
    files: int
    """Number of files that the savepoint keeps."""
    size: int
    """Total size of those files, in bytes."""
    has_strangers: bool
    """Whether there were data files of instants that are neither on the timeline nor before it."""
    derived: int = 0
    """Savepoints derived in a row, including this one, since all partitions were last listed."""

    @classmethod
    def of(
        cls,
        properties: TableProperties,
        rules: SliceRules,
        kept: tuple[int, int],
        names: Iterable[str],
    ) -> Self:
        """The view of a plan that listed everything.

        Args:
            properties: The table's properties.
            rules: With the table's timeline.
            kept: The number of files that the savepoint keeps, and their total bytes.
            names: The names of all data files.
        """
        return cls(
            (properties.version, properties.table_type),
            properties.layout,
            relevant_instants(rules.timeline, properties.layout),
            *kept,
            sees_strangers(rules, names),
        )

    def header(self) -> dict[str, str]:
        """The header entry of the savepoint's file."""
        record = {
            "format": _FORMAT,
            "table": self.table,
            "layout": self.layout,
            "instants": sorted(_name(instant) for instant in self.instants),
            "files": self.files,
            "bytes": self.size,
            "strangers": self.has_strangers,
            "derived": self.derived,
        }
        packed = zlib.compress(json.dumps(record, separators=(",", ":")).encode())
        return {KEY: b64encode(packed).decode()}

    @classmethod
    def parse(cls, header: Mapping[str, str]) -> Self:
        """Read the header entry.

        Raises:
            FormatError: the entry is missing, or is from another version of Tidegate.
        """
        try:
            inflate = zlib.decompressobj()
            record = parse_json(
                inflate.decompress(b64decode(header[KEY]), _LARGEST),
                "the savepoint's view",
                _LARGEST,
            )
            if record["format"] != _FORMAT or inflate.unconsumed_tail:
                raise FormatError("the savepoint's view is from another version, or too large")
            version, kind = record["table"]
            return cls(
                (count_of(version), str(kind)),
                Layout(record["layout"]),
                frozenset(map(_instant, record["instants"])),
                count_of(record["files"]),
                count_of(record["bytes"]),
                bool(record["strangers"]),
                count_of(record["derived"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
            raise FormatError(f"the savepoint has no readable view: {error!r}") from error


def relevant_instants(timeline: Timeline, layout: Layout) -> frozenset[Instant]:
    """The instants of a timeline that decide which files a savepoint keeps, as in a `View`."""
    return frozenset(
        Instant(i.timestamp, i.action, i.state, None if layout is Layout.ONE else i.completion)
        for i in timeline.instants
        if i.action in _RELEVANT
    )


def sees_strangers(rules: SliceRules, names: Iterable[str]) -> bool:
    """Whether a data file's instant is neither on the timeline nor before it.

    Such a file counts as uncommitted until the timeline begins after it.
    """
    timeline = rules.timeline
    known = {write.timestamp for write in timeline.writes}
    unknown = {instant for instant in map(instant_of_data_file, names) if instant} - known
    return any(not timeline.is_committed(instant) for instant in unknown)


def _name(instant: Instant) -> str:
    times = "_".join(filter(None, (instant.timestamp, instant.completion)))
    return f"{times} {instant.action} {instant.state.name}"


def _instant(name: str) -> Instant:
    times, action, state = name.split(" ")
    timestamp, _, completion = times.partition("_")
    return Instant(timestamp, Action(action), InstantState[state], completion or None)
