"""What a restore undoes in Hudi's metadata table, and whether that is provably right. Pure.

The metadata table is a merge-on-read table of its own, whose delta commits have the instants of the
table's writes and cleans. From table version 8 on each of them has log files of its own: without
those of what is rolled back it says what it said before. A compaction of it that merged one of them
goes too, if what it merged is still there. Cleans after the savepoint stay in both.

A partition that was built after the savepoint has rows of what is rolled back in its base files: it
is dropped, and the others are kept. Its building has an instant of zeros and a number, so only the
completion time dates it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

from tidegate.bounded_json import parse_json
from tidegate.errors import FormatError, TidegateError
from tidegate.hudi import (
    COMMITS,
    COMPACTIONS,
    Action,
    BaseFile,
    Instant,
    InstantState,
    LogFile,
    Timeline,
    WriteStat,
    parse_data_file,
)

FILES: Final = "files"
"""The partition that lists files: without it there is no metadata table."""
_LARGEST: Final = 16 * 2**20
_BUILT: Final = "0" * 14
"""What the instants begin with under which a partition is built."""
_NAME: Final = re.compile(r"\w[\w.-]{0,200}", re.ASCII)
_INSTANT: Final = re.compile(r"\d{14,24}")
_NO_DATA: Final = ".hoodie_partition_metadata"
_CHECKSUM: Final = ".crc"
_RECORDED: Final = COMMITS | {Action.CLEAN, Action.ROLLBACK, Action.INDEXING}


class Unprovable(TidegateError):  # noqa: N818 - an expected result, not a failure
    """It can't be shown that undoing would be right. The catcher drops the metadata table."""


@dataclass(frozen=True, slots=True)
class SeenMetadataTable:
    """A metadata table as it was read.

    Attributes:
        files: The files of its timeline.
        partitions: The names in each of its partitions.
        merged: The files (partition, name) that each completed compaction merged, by its instant.
        written: What each completed commit wrote, by its instant.
        digest: A hash of all names and sizes.
    """

    files: tuple[Instant, ...]
    partitions: Mapping[str, frozenset[str]]
    merged: Mapping[str, frozenset[tuple[str, str]]]
    written: Mapping[str, tuple[WriteStat, ...]]
    digest: str


@dataclass(frozen=True, slots=True)
class MetadataUndo:
    """What is undone in a metadata table.

    Attributes:
        kept: Its partitions afterwards, sorted.
        dropped: Those that go, sorted.
        instants: Its own instants that go.
        gone: The table's instants that go.
        digest: `SeenMetadataTable.digest` before.
        staying: `staying_of` the table.
    """

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    instants: tuple[str, ...]
    gone: tuple[str, ...]
    digest: str
    staying: str

    def encode(self) -> str:
        """Write it as text; `decode` reads it back."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self | None:
        """Read what `encode` wrote; None if it is anything else."""
        try:
            record = parse_json(text, "the undo of a metadata table", _LARGEST)
            return cls(
                kept=_all(_NAME, record["kept"]),
                dropped=_all(_NAME, record["dropped"]),
                instants=_all(_INSTANT, record["instants"]),
                gone=_all(_INSTANT, record["gone"]),
                digest=str(record["digest"]),
                staying=str(record["staying"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def _all(form: re.Pattern[str], values: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    if not isinstance(values, list) or not all(form.fullmatch(value) for value in values):
        raise TypeError(values)
    return tuple(values)


def staying_of(timeline: Timeline, gone: Iterable[str], restore: str | None = None) -> str:
    """A hash of what stays on a table's timeline: whatever else is done to the table changes it.

    Args:
        timeline: The table's timeline.
        gone: The instants that go.
        restore: The restore's own instant.
    """
    left = {*gone, restore}
    shown = [
        (i.timestamp, str(i.action), i.state.name, i.completion)
        for i in timeline.instants
        if i.timestamp not in left
    ]
    return hashlib.sha256(json.dumps(sorted(shown, key=repr)).encode()).hexdigest()


def plan_undo(
    seen: SeenMetadataTable,
    timeline: Timeline,
    savepoint: Instant,
    later: Sequence[Instant],
    declared: Sequence[str],
) -> MetadataUndo:
    """Find what has to go from a metadata table.

    Args:
        seen: The metadata table.
        timeline: The table's timeline.
        savepoint: The savepointed commit.
        later: The instants that the restore rolls back.
        declared: The partitions that the table's properties declare.

    Raises:
        Unprovable: it can't be kept; the message says why, in the middle of a sentence.
    """
    gone = {each.timestamp for each in later}
    # a restore removes these rollbacks too
    rollbacks = {each.timestamp for each in timeline.of_action(Action.ROLLBACK)}
    gone |= {rollback for rollback in rollbacks if rollback > savepoint.timestamp}
    fates = _fates(seen, timeline, savepoint, gone)
    for write in later:
        if write.state is InstantState.COMPLETED and write.timestamp not in fates.completed:
            raise Unprovable(f"it has no commit {write.timestamp} (any more)")
    if savepoint.timestamp not in fates.completed:
        raise Unprovable(f"it has no commit {savepoint.timestamp} (any more)")
    if set(declared) != set(seen.partitions):
        raise Unprovable("its folders are not the partitions that the table declares")
    dropped = {name for name in seen.partitions if not _is_whole(name, seen, fates)}
    if FILES in dropped:
        raise Unprovable("what its list of files was before the savepoint is no longer there")
    return MetadataUndo(
        kept=tuple(sorted(seen.partitions.keys() - dropped)),
        dropped=tuple(sorted(dropped)),
        instants=tuple(sorted(fates.undone)),
        gone=tuple(sorted(gone)),
        digest=seen.digest,
        staying=staying_of(timeline, gone),
    )


class _Fates(NamedTuple):
    """What becomes of the instants of a metadata table.

    `late` are buildings after the savepoint, `staying` maps what stays to the time from which
    log files belong behind it, `start` is the first instant that was not archived.
    """

    undone: AbstractSet[str]
    late: AbstractSet[str]
    staying: Mapping[str, str]
    completed: AbstractSet[str]
    start: str

    def stays(self, name: str, instant: str) -> bool:
        """Whether a file stays, by the instant in its name.

        Raises:
            Unprovable: it belongs to no commit.
        """
        if instant in self.undone or instant in self.late:
            return False
        if instant in self.staying or instant.startswith(_BUILT) or instant < self.start:
            return True
        raise Unprovable(f"its file {name} belongs to no commit")

    def is_dated(self, instant: str) -> bool:
        """Whether what has stayed of an instant is known to be older than the savepoint.

        What was built under an instant that has been archived may have been built at any time.
        """
        return instant in self.staying or not instant.startswith(_BUILT)


def _fates(
    seen: SeenMetadataTable, timeline: Timeline, savepoint: Instant, gone: AbstractSet[str]
) -> _Fates:
    _check_kinds(seen, timeline, savepoint.completion or "")
    recorded = {
        i.timestamp
        for i in timeline.instants
        if i.action in _RECORDED and i.state is InstantState.COMPLETED
    }
    instants = Timeline.of(seen.files).instants
    commits = [i for i in instants if i.action is Action.DELTA_COMMIT]
    undone = {i.timestamp for i in commits if i.timestamp in gone}
    staying, late = dict[str, str](), set[str]()
    for each in (i for i in commits if i.timestamp not in gone):
        if _is_older(each, savepoint) or (each.completion and each.timestamp in recorded):
            staying[each.timestamp] = each.completion or ""
        elif each.completion and each.timestamp.startswith(_BUILT):
            late.add(each.timestamp)
        else:
            raise Unprovable(f"its commit {each.timestamp} is not one of the table's")
    for each in (i for i in instants if i.action in COMPACTIONS):
        if _is_undone(each, seen, undone | late):
            undone.add(each.timestamp)
        else:
            staying[each.timestamp] = each.timestamp
    ordinary = [i.timestamp for i in instants if not i.timestamp.startswith(_BUILT)]
    completed = {i.timestamp for i in commits if i.completion}
    return _Fates(undone, late, staying, completed, min(ordinary, default=""))


def _check_kinds(seen: SeenMetadataTable, timeline: Timeline, bound: str) -> None:
    """Check that nothing was done after the savepoint that is unknown here."""
    for indexing in timeline.of_action(Action.INDEXING):
        if (indexing.completion or "~") > bound:
            raise Unprovable(f"indexing {indexing.timestamp} completed after the savepoint")
    for file in seen.files:
        if file.action is Action.LOG_COMPACTION:
            raise Unprovable("it has log compactions")
    for instant in Timeline.of(seen.files).instants:
        # its cleans and rollbacks may stay
        is_known = (
            instant.action in {Action.CLEAN, Action.ROLLBACK} and instant.completion is not None
        )
        is_old = instant.completion is not None and instant.completion < bound
        if not (is_known or is_old or instant.action in COMPACTIONS | {Action.DELTA_COMMIT}):
            raise Unprovable(f"its {instant.timestamp}.{instant.action} can't be undone")


def _is_older(commit: Instant, savepoint: Instant) -> bool:
    """Whether a commit of the metadata table was made before the savepointed one."""
    if commit.completion is None or savepoint.completion is None:
        return False
    before = commit.completion < savepoint.completion
    return before and commit.timestamp < savepoint.timestamp


def _is_undone(compaction: Instant, seen: SeenMetadataTable, undone: AbstractSet[str]) -> bool:
    """Whether a compaction has to go: a pending one, and one that merged what goes."""
    if compaction.completion is None:
        return True
    merged = seen.merged.get(compaction.timestamp)
    if merged is None:
        raise Unprovable(f"the plan of its compaction {compaction.timestamp} is gone")
    return any(_file(name).instant in undone for _, name in merged)


def _is_whole(partition: str, seen: SeenMetadataTable, fates: _Fates) -> bool:
    """Whether a partition has all that it had before the savepoint."""
    groups = defaultdict[str, list[BaseFile | LogFile]](list)
    present = seen.partitions[partition]
    for name in present:
        if not name.endswith(_CHECKSUM) and not name.startswith(_NO_DATA):
            file = _file(name)
            groups[file.file_id].append(file)
    bases = dict[str, str]()
    for group, files in groups.items():
        left = [file for file in files if fates.stays(file.file_name, file.instant)]
        if any(file.instant in fates.late for file in files) or not left:
            return False
        base = max((f.instant for f in left if isinstance(f, BaseFile)), default=None)
        first = base or min(file.instant for file in left)
        # without a base file it begins with the log file with which it was built
        if not fates.is_dated(first) or (base is None and not first.startswith(_BUILT)):
            return False
        # readers may pass over the log files of a commit that was archived after its compaction
        if any(file.instant > first and file.instant not in fates.staying for file in left):
            return False
        bases[group] = first
    return bool(groups) and all(
        stat.path.rpartition("/")[2] in present
        for instant, since in fates.staying.items()
        for stat in seen.written.get(instant, ())
        if stat.partition == partition and since > bases.get(stat.file_id, "")
    )


def _file(name: str) -> BaseFile | LogFile:
    try:
        file = parse_data_file(name.rpartition("/")[2])
    except FormatError as error:
        raise Unprovable(str(error)) from error
    if file is None:
        raise Unprovable(f"its file {name[:100]} is not one of a metadata table")
    return file
