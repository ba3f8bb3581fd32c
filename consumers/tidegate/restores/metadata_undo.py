"""The instants that a restore undoes in Hudi's metadata table, and whether that is right. Pure.

The metadata table is itself a merge-on-read table, whose delta commits have the instants of the
table's writes and cleans. From table version 8 on, every delta commit has its own log files. So
removing the log files of rolled-back writes returns the metadata table to its earlier content. A
compaction of the metadata table that merged such a log file is removed, too, if the files that it
merged still exist. Cleans after the savepoint stay in both tables.

A partition that was built after the savepoint has rows of rolled-back writes in its base files. It
is dropped, and the other partitions are kept. The instant of a partition's building is zeros and a
number, so only its completion time dates it.
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
"""The partition that lists files; a metadata table always has it."""
_LARGEST: Final = 16 * 2**20
_BUILT: Final = "0" * 14
"""The prefix of the instants at which partitions are built."""
_NAME: Final = re.compile(r"\w[\w.-]{0,200}", re.ASCII)
_INSTANT: Final = re.compile(r"\d{14,24}")
_NO_DATA: Final = ".hoodie_partition_metadata"
_CHECKSUM: Final = ".crc"
_RECORDED: Final = COMMITS | {Action.CLEAN, Action.ROLLBACK, Action.INDEXING}


class Unprovable(TidegateError):  # noqa: N818 - an expected result, not a failure
    """Undoing may be wrong. The catcher drops the metadata table."""


@dataclass(frozen=True, slots=True)
class SeenMetadataTable:
    """The content of a metadata table.

    Attributes:
        files: The files of its timeline.
        partitions: The file names in every partition, by the partition's name.
        merged: The files (partition, name) that every completed compaction merged, by instant.
        written: The writes of every completed commit, by instant.
        digest: A hash of all names and sizes.
    """

    files: tuple[Instant, ...]
    partitions: Mapping[str, frozenset[str]]
    merged: Mapping[str, frozenset[tuple[str, str]]]
    written: Mapping[str, tuple[WriteStat, ...]]
    digest: str


@dataclass(frozen=True, slots=True)
class MetadataUndo:
    """The changes that undo writes in a metadata table.

    Attributes:
        kept: The partitions that remain, sorted.
        dropped: The partitions that are removed, sorted.
        instants: The metadata table's own instants that are removed.
        gone: The table's instants that are removed.
        digest: `SeenMetadataTable.digest` before the change.
        staying: `staying_of` the table.
    """

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    instants: tuple[str, ...]
    gone: tuple[str, ...]
    digest: str
    staying: str

    def encode(self) -> str:
        """Encode as text; the inverse of `decode`."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self | None:
        """Decode the text of `encode`; None if it is invalid."""
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
    """A hash of the instants that stay on a table's timeline; any other action changes it.

    Args:
        timeline: The table's timeline.
        gone: The instants that are removed.
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
    """Find the instants and partitions to remove from a metadata table.

    Args:
        seen: The metadata table.
        timeline: The table's timeline.
        savepoint: The savepointed commit.
        later: The instants that the restore rolls back.
        declared: The partitions that the table's properties declare.

    Raises:
        Unprovable: the metadata table can't be kept; the message is a clause with the reason.
    """
    gone = {write.timestamp for write in later}
    # a restore also removes these rollbacks
    rollbacks = {rollback.timestamp for rollback in timeline.of_action(Action.ROLLBACK)}
    gone |= {rollback for rollback in rollbacks if rollback > savepoint.timestamp}
    fates = _fates(seen, timeline, savepoint, gone)
    for write in later:
        if write.state is InstantState.COMPLETED and write.timestamp not in fates.completed:
            raise Unprovable(f"commit {write.timestamp} is not (or no longer) in it")
    if savepoint.timestamp not in fates.completed:
        raise Unprovable(f"commit {savepoint.timestamp} is not (or no longer) in it")
    if set(declared) != set(seen.partitions):
        raise Unprovable("its folders differ from the partitions that the table declares")
    dropped = {name for name in seen.partitions if not _is_whole(name, seen, fates)}
    if FILES in dropped:
        raise Unprovable("its list of files before the savepoint is no longer there")
    return MetadataUndo(
        kept=tuple(sorted(seen.partitions.keys() - dropped)),
        dropped=tuple(sorted(dropped)),
        instants=tuple(sorted(fates.undone)),
        gone=tuple(sorted(gone)),
        digest=seen.digest,
        staying=staying_of(timeline, gone),
    )


class _Fates(NamedTuple):
    """The fate of the instants of a metadata table.

    `undone` are removed; `late` built a partition after the savepoint. `staying` maps the remaining
    instants to the time from which log files follow them. `start` is the first instant that was not
    archived.
    """

    undone: AbstractSet[str]
    late: AbstractSet[str]
    staying: Mapping[str, str]
    completed: AbstractSet[str]
    start: str

    def stays(self, name: str, instant: str) -> bool:
        """Whether a file stays, by the instant in its name.

        Raises:
            Unprovable: the file does not belong to a commit.
        """
        if instant in self.undone or instant in self.late:
            return False
        if instant in self.staying or instant.startswith(_BUILT) or instant < self.start:
            return True
        raise Unprovable(f"its file {name} belongs to no commit")

    def is_dated(self, instant: str) -> bool:
        """Whether the files of an instant are known to be older than the savepoint.

        A partition whose building has been archived may have been built at any time.
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
    for commit in (i for i in commits if i.timestamp not in gone):
        if _is_older(commit, savepoint) or (commit.completion and commit.timestamp in recorded):
            staying[commit.timestamp] = commit.completion or ""
        elif commit.completion and commit.timestamp.startswith(_BUILT):
            late.add(commit.timestamp)
        else:
            raise Unprovable(f"its commit {commit.timestamp} is not one of the table's")
    for compaction in (i for i in instants if i.action in COMPACTIONS):
        if _is_undone(compaction, seen, undone | late):
            undone.add(compaction.timestamp)
        else:
            staying[compaction.timestamp] = compaction.timestamp
    ordinary = [i.timestamp for i in instants if not i.timestamp.startswith(_BUILT)]
    completed = {i.timestamp for i in commits if i.completion}
    return _Fates(undone, late, staying, completed, min(ordinary, default=""))


def _check_kinds(seen: SeenMetadataTable, timeline: Timeline, bound: str) -> None:
    """Check that nothing after the savepoint is of an unknown kind."""
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
    """Whether a compaction is removed: it is pending, or merged files that are removed."""
    if compaction.completion is None:
        return True
    merged = seen.merged.get(compaction.timestamp)
    if merged is None:
        raise Unprovable(f"the plan of its compaction {compaction.timestamp} is gone")
    return any(_file(name).instant in undone for _, name in merged)


def _is_whole(partition: str, seen: SeenMetadataTable, fates: _Fates) -> bool:
    """Whether a partition still has everything that it had before the savepoint."""
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
        # without a base file, it begins with the log file that built it
        if not fates.is_dated(first) or (base is None and not first.startswith(_BUILT)):
            return False
        # readers may skip the log files of a commit that was archived after its compaction
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
        raise Unprovable(f"its file {name[:100]} is not a data file of a metadata table")
    return file
