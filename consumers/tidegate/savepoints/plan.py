"""The files that a savepoint keeps, and the checks before it is written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from tidegate.events.reasons import Reason
from tidegate.hudi.commit import CommitMetadata, WriteStat
from tidegate.hudi.file_slice import (
    BaseFile,
    FileSlice,
    LogFile,
    SliceRules,
    instant_of_data_file,
    latest_slices,
    parse_data_file,
    replaced_groups,
)
from tidegate.hudi.instant import Action, Instant, Layout
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.partitions import PartitionFiles
from tidegate.savepoints.derivation import View, overlaps
from tidegate.tables.refusal import Refused

_SHOWN = 3
_NOTHING: Final = frozenset[tuple[str, str]]()
_END_OF_TIME: Final = "9" * 24
_Group = tuple[str, str]
"""A file group: its partition and its file id."""


@dataclass(frozen=True, slots=True)
class SavepointPlan:
    """The files to keep, by partition."""

    instant: str
    files: Mapping[str, tuple[str, ...]]
    bytes: int
    """The total size of those files, as listed."""
    file_count: int
    view: View | None = None
    """The plan's view of the table; the next savepoint is derived from it."""
    derived_from: str | None = None
    """The savepoint from which it was derived; None: all partitions were listed."""
    listed_because: str | None = None
    """Why all partitions were listed."""


def choose_commit(timeline: Timeline, wanted: str | None) -> Instant:
    """The wanted commit or, without one, the last completed commit (Hudi's own default).

    Raises:
        Refused: there is no such commit.
    """
    found = timeline.completed_write(wanted) if wanted else timeline.last_completed_write()
    if found is not None:
        return found
    what = f"commit {wanted} is not one of the completed" if wanted else "there are no completed"
    raise Refused(Reason.NO_SUCH_COMMIT, f"{what} commits of the table's active timeline")


def check_bound(commit: str, bound: str | None) -> None:
    """Check that a commit is not below `bound`, from which on the cleaner retained every file.

    Raises:
        Refused: the commit is below it.
    """
    if bound and commit < bound:
        raise Refused(
            Reason.BELOW_LAST_CLEAN,
            f"commit {commit} is older than {bound}, the earliest commit that the last clean"
            " retained: some of its files may already be cleaned",
        )


def plan_savepoint(
    commit: str,
    rules: SliceRules,
    commits: Iterable[tuple[str, CommitMetadata]],
    partitions: Sequence[PartitionFiles],
    undone: AbstractSet[str] = frozenset(),
) -> SavepointPlan:
    """Choose the newest slice of every file group at or before `commit`.

    As in Hudi, a partition without such a slice is in the plan, too, with no files.

    If writes overlapped, Hudi's own list is not the list that a restore needs: Hudi chooses slices
    by request time but rolls back writes by completion time. Then the plan also contains the slices
    of the table after a restore, and omits base files that the restore removes. Without overlaps
    both lists are equal.

    Args:
        commit: The timestamp of the commit to savepoint.
        rules: Decide which slice a file belongs to; with the table's timeline.
        commits: The metadata of the relevant completed writes (see `commits_to_read`), each with
            its timestamp; iterated once, so it may be a generator.
        partitions: All partitions of the table with their files.
        undone: The timestamps of the writes that a restore to `commit` rolls back.

    Raises:
        Refused: a file that the commit needs is gone.
    """
    chosen = {p.path: latest_slices(p.path, p.sizes, rules, commit, _NOTHING) for p in partitions}
    groups = {
        (path, slice_.file_id): slice_ for path, slices in chosen.items() for slice_ in slices
    }
    present = {p.path: p.sizes for p in partitions}
    replaced, missing = set[_Group](), dict[str, _Group]()
    overlapped = overlaps(commit, rules.timeline, rules.layout, undone)
    after = _AfterRestore(rules, undone) if overlapped else None
    for timestamp, metadata in commits:
        replaced |= replaced_groups({timestamp: metadata.replaced}, commit)
        if after is not None:
            after.saw(timestamp, metadata)
        for stat, instant in _expected(timestamp, metadata, commit):
            group = stat.partition, stat.file_id
            if group in replaced:
                continue
            if _is_missing(stat, instant, groups.get(group), present, rules):
                where = stat.partition or "the table"
                missing[f"{stat.file_id} of {where} at {instant}"] = group
    _refuse_missing(text for text, group in missing.items() if group not in replaced)
    files = {
        path: tuple(
            sorted(n for s in slices if (path, s.file_id) not in replaced for n in s.file_names)
        )
        for path, slices in chosen.items()
    }
    if after is not None:
        left = {p.path: after.slices(p) for p in partitions}
        _refuse_missing(after.missing(left))
        files = {path: after.joined(names, left[path]) for path, names in files.items()}
    size = sum(present[path][name] for path, names in files.items() for name in names)
    return SavepointPlan(commit, files, size, sum(map(len, files.values())))


class _AfterRestore:
    """The slices of a table once the writes in `undone` are rolled back."""

    def __init__(self, rules: SliceRules, undone: AbstractSet[str]) -> None:
        staying = {group: at for group, at in rules.compactions.items() if at not in undone}
        self._rules, self._undone = replace(rules, compactions=staying), undone
        self._replaced = set[_Group]()
        self._followed, self._begun = set[_Group](), set[_Group]()
        """The groups that the writes in `undone` continued or replaced, and those they started."""

    def saw(self, timestamp: str, commit: CommitMetadata) -> None:
        replaced = replaced_groups({timestamp: commit.replaced}, timestamp)
        if timestamp not in self._undone:
            self._replaced |= replaced
            return
        self._followed |= replaced
        for stat in commit.writes:
            is_first = stat.previous is None or stat.previous in self._undone
            (self._begun if is_first else self._followed).add((stat.partition, stat.file_id))

    def slices(self, partition: PartitionFiles) -> tuple[FileSlice, ...]:
        names = [n for n in partition.sizes if instant_of_data_file(n) not in self._undone]
        return latest_slices(partition.path, names, self._rules, _END_OF_TIME, self._replaced)

    def joined(self, names: Iterable[str], left: Iterable[FileSlice]) -> tuple[str, ...]:
        """A partition's file names without rolled-back base files, plus the files of `left`."""
        bases = ((name, BaseFile.parse(name)) for name in names)
        staying = {n for n, base in bases if base is None or base.instant not in self._undone}
        return tuple(sorted(staying.union(*(slice_.file_names for slice_ in left))))

    def missing(self, chosen: Mapping[str, Sequence[FileSlice]]) -> Iterator[str]:
        there = {(path, slice_.file_id) for path, slices in chosen.items() for slice_ in slices}
        for path, file_id in self._followed - self._begun - self._replaced - there:
            yield f"{file_id} of {path or 'the table'}, before writes that are not in the commit"


def _refuse_missing(missing: Iterable[str]) -> None:
    gone = sorted(missing)
    if gone:
        shown = "; ".join(gone[:_SHOWN])
        raise Refused(Reason.MISSING_FILES, f"{len(gone)} files of the commit are gone: {shown}")


def _expected(
    timestamp: str, commit: CommitMetadata, until: str
) -> Iterator[tuple[WriteStat, str]]:
    """The writes that must exist at `until` according to a commit, each with its instant.

    A later write names the instant that it built upon; it needs no file of its own. Hudi does not
    check this: if its cleaner counts versions, it savepoints commits whose files are gone.
    """
    for stat in commit.writes:
        if timestamp <= until:
            yield stat, timestamp
        elif stat.previous is not None and stat.previous <= until:
            yield stat._replace(path=""), stat.previous


def _is_missing(
    stat: WriteStat,
    instant: str,
    chosen: FileSlice | None,
    present: Mapping[str, Mapping[str, int]],
    rules: SliceRules,
) -> bool:
    """Whether the chosen slice of a file group misses a file that a write added.

    A file of an older slice may be gone: the chosen slice's base file has its rows.
    """
    if chosen is None:
        return True
    log = LogFile.parse(stat.path.rpartition("/")[2])
    if log is None:
        return chosen.instant < instant
    if rules.layout is Layout.ONE:
        belongs_to = log.instant
    else:
        belongs_to = rules.timeline.completion_of(instant)
    return chosen.instant <= belongs_to and log.file_name not in present.get(stat.partition, ())


def commits_to_read(
    commit: str, bound: str | None, rules: SliceRules, names: Iterable[str]
) -> tuple[Instant, ...]:
    """The completed writes whose metadata have to be read, in reading order.

    Replacements come first, newest first: so most replaced groups are known before their files seem
    to be missing.

    Args:
        commit: The timestamp of the commit to savepoint.
        bound: The clean's bound; empty or None if it has none.
        rules: With the table's timeline and layout.
        names: The names of all data files; iterated only if some commit may be skipped.

    Raises:
        FormatError: a log file's name has an unknown form.
    """
    writes = rules.timeline.completed_writes
    if any(_replaces(write) and write.timestamp > commit for write in writes):
        return _ordered(writes)
    until = min(bound or commit, commit)
    if all(_is_needed(write, until, rules.layout) for write in writes):
        return _ordered(writes)
    left = frozenset(_instants(names))
    return _ordered(write for write in writes if _is_needed(write, until, rules.layout, left))


def _ordered(writes: Iterable[Instant]) -> tuple[Instant, ...]:
    newest_first = sorted(writes, key=lambda write: write.timestamp, reverse=True)
    return tuple(sorted(newest_first, key=_replaces, reverse=True))


def _is_needed(
    write: Instant, until: str, layout: Layout, left: AbstractSet[str] = frozenset()
) -> bool:
    """Whether a write has to be read: it is not before `until`, or it has files in `left`.

    Replacements are always read, for the groups that they replaced. So are delta commits of
    layout 1, because their log files do not carry their instants.
    """
    unnamed = layout is Layout.ONE and write.action is Action.DELTA_COMMIT
    return write.timestamp >= until or _replaces(write) or unnamed or write.timestamp in left


def _replaces(write: Instant) -> bool:
    return write.action is Action.REPLACE_COMMIT


def _instants(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        file = parse_data_file(name)
        if file is not None:
            yield file.instant
