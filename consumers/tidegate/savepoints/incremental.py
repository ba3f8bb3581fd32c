"""Derive a savepoint from the table's last one, listing only partitions that changed.

`derivation.py` explains when the result equals a listing of everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegate.errors import FormatError
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.file_slice import SliceRules, parse_data_file
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.table_services import cleaned_partitions, compacted_groups
from tidegate.hudi_reader.partitions import PartitionFiles, list_partitions, read_partitions
from tidegate.hudi_reader.slices import slice_rules, with_merged
from tidegate.hudi_reader.table import HudiTable
from tidegate.savepoints.derivation import InDoubt, View, changes_since
from tidegate.savepoints.lookup import read_commits, undone_to
from tidegate.savepoints.plan import SavepointPlan, commits_to_read, plan_savepoint
from tidegate.storage import NotFound, ParallelMap
from tidegate.tables.refusal import Refused

_META_FOLDER: Final = ".hoodie"
_HELD: Final = 200_000
"""Maximum of files that the commits since the last savepoint name together: about 100 MB."""


@dataclass(frozen=True, slots=True)
class _Base:
    """The savepoint to derive from."""

    instant: str
    view: View
    files: Mapping[str, tuple[str, ...]]


def derive_savepoint(
    table: HudiTable, commit: str, parallel_map: ParallelMap, most_derived: int
) -> SavepointPlan:
    """Plan a savepoint from the last one at or before `commit`.

    Unchanged partitions are not listed: Hudi removes no file that a savepoint keeps. In changed
    partitions, every file of the earlier savepoint has to exist.

    Raises:
        InDoubt: a listing of everything may return another plan.
    """
    try:
        base = _last_savepoint(table, commit)
        writes, cleans, pending = changes_since(
            base.view, base.instant, table.properties, table.timeline, most_derived
        )
        rules = slice_rules(table)
        commits = _held(read_commits(table, writes, parallel_map))
        touched = {path for path, _ in rules.compactions}
        touched |= {path for _, metadata in commits for path in metadata.partitions}
        touched.update(*(cleaned_partitions(table.read(clean)) for clean in cleans))
        touched |= _compacted(table, pending, writes)
        old = {path: base.files[path] for path in touched if path in base.files}
        _check_paths(touched - old.keys(), base, touched)
        found = read_partitions(table.storage, table.location, sorted(touched), parallel_map)
        rules = with_merged(table, rules, found)
        listed = {partition.path: partition for partition in found}
        replaced_bytes = sum(_size(path, names, listed) for path, names in old.items())
        earlier = _earlier_replacements(base, rules, old, listed.values())
        replacements = read_commits(table, earlier, parallel_map)
        replaced = (
            (timestamp, replace(metadata, writes=())) for timestamp, metadata in replacements
        )
        undone = undone_to(table, commit)
        new = plan_savepoint(commit, rules, [*replaced, *commits], found, undone)
        files = {path: names for path, names in base.files.items() if path not in old}
        files |= new.files
    except Refused as refused:
        raise InDoubt(f"in partitions that changed: {refused.message}") from refused
    except (FormatError, NotFound) as error:
        raise InDoubt(f"{type(error).__name__}: {error}") from error
    size = base.view.size - replaced_bytes + new.bytes
    count = base.view.files - sum(map(len, old.values())) + new.file_count
    names = (name for partition in found for name in partition.sizes)
    seen = View.of(table.properties, rules, (count, size), names)
    strangers = base.view.has_strangers or seen.has_strangers or _may_have_holes(table, base)
    view = replace(seen, has_strangers=strangers, derived=base.view.derived + 1)
    return SavepointPlan(commit, files, size, count, view, base.instant)


def _may_have_holes(table: HudiTable, base: _Base) -> bool:
    """Whether commits after the earlier savepoint may have been archived without its view.

    Hudi archives them with `hoodie.archive.beyond.savepoint`, oldest first. Their files count as
    uncommitted until the timeline begins after them.
    """
    savepoints = table.timeline.savepoints
    return not any(
        write.timestamp <= base.instant and write.timestamp not in savepoints
        for write in table.timeline.completed_writes
    )


def _last_savepoint(table: HudiTable, commit: str) -> _Base:
    savepoints = table.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
    last = next(
        (savepoint for savepoint in reversed(savepoints) if savepoint.timestamp <= commit), None
    )
    if last is None:
        raise InDoubt("there is no earlier savepoint")
    try:
        metadata, header = SavepointMetadata.decode_own(table.read(last))
        return _Base(last.timestamp, View.parse(header), metadata.files)
    except FormatError as error:
        raise InDoubt(
            f"savepoint {last.timestamp} was not written by this version of Tidegate"
        ) from error


def _held(commits: Iterable[tuple[str, CommitMetadata]]) -> list[tuple[str, CommitMetadata]]:
    """Read all commits into memory, up to a limit; a listing of everything reads one by one."""
    held, files = list[tuple[str, CommitMetadata]](), 0
    for timestamp, metadata in commits:
        files += len(metadata.writes)
        if files > _HELD:
            raise InDoubt(f"the commits since the last savepoint name more than {_HELD} files")
        held.append((timestamp, metadata))
    return held


def _compacted(table: HudiTable, pending: Iterable[str], writes: Iterable[Instant]) -> set[str]:
    """The partitions of the compactions that were pending, and of those that completed since."""
    plans = {Instant(at, Action.COMPACTION, InstantState.REQUESTED) for at in pending}
    since = {write.timestamp for write in writes}
    plans |= {file for file in table.files if _is_plan(file) and file.timestamp in since}
    return {path for plan in plans for path, _ in compacted_groups(table.read(plan))}


def _is_plan(file: Instant) -> bool:
    return file.action is Action.COMPACTION and file.state is InstantState.REQUESTED


def _check_paths(new: Iterable[str], base: _Base, touched: set[str]) -> None:
    """Check that a listing would find the partitions that are new since the savepoint."""
    for path in new:
        names = path.split("/") if path else []
        if any(name in {"", ".", "..", _META_FOLDER} for name in names):
            raise InDoubt(f"{path[:200]} is not a valid partition path")
        above = ("/".join(names[:count]) for count in range(len(names)))
        if any(parent in base.files or parent in touched for parent in above):
            raise InDoubt(f"{path[:200]} is inside another partition")


def _size(path: str, names: Iterable[str], listed: Mapping[str, PartitionFiles]) -> int:
    """The size, in bytes, of a partition's files in the earlier savepoint."""
    sizes = listed[path].sizes if path in listed else {}
    gone = next((name for name in names if name not in sizes), None)
    if gone is not None:
        raise InDoubt(f"{gone} of {path or 'the table'} is gone, although a savepoint keeps it")
    return sum(sizes[name] for name in names)


def _earlier_replacements(
    base: _Base,
    rules: SliceRules,
    old: Mapping[str, Sequence[str]],
    listed: Iterable[PartitionFiles],
) -> tuple[Instant, ...]:
    """The replacements up to the earlier savepoint, if one may have replaced a listed group.

    A group was not replaced by then if that savepoint keeps a file of it. A replaced group has
    files older than the savepoint.
    """
    for partition in listed:
        kept = {_file_id(name) for name in old.get(partition.path, ())}
        for name in partition.sizes:
            file = parse_data_file(name)
            if file and file.instant <= base.instant and file.file_id not in kept:
                return tuple(
                    write
                    for write in rules.timeline.completed_writes
                    if write.action is Action.REPLACE_COMMIT and write.timestamp <= base.instant
                )
    return ()


def _file_id(name: str) -> str | None:
    file = parse_data_file(name)
    return file.file_id if file else None


def list_savepoint(
    table: HudiTable, commit: str, bound: str | None, parallel_map: ParallelMap
) -> SavepointPlan:
    """Plan a savepoint from the table alone, without an earlier savepoint.

    Args:
        table: The table.
        commit: The timestamp of the commit to savepoint.
        bound: The clean's bound; empty or None if it has none.
        parallel_map: Runs the listings and reads.

    Raises:
        Refused: a file that the commit needs is gone.
        FormatError: a file of the table is malformed.
        NotFound: a file of the timeline was removed meanwhile.
    """
    partitions = list_partitions(table.storage, table.location, parallel_map)
    rules = with_merged(table, slice_rules(table), partitions)
    names = [name for partition in partitions for name in partition.sizes]
    relevant = commits_to_read(commit, bound, rules, names)
    commits = read_commits(table, relevant, parallel_map)
    plan = plan_savepoint(commit, rules, commits, partitions, undone_to(table, commit))
    return replace(
        plan, view=View.of(table.properties, rules, (plan.file_count, plan.bytes), names)
    )
