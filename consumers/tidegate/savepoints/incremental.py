"""Deriving a savepoint from the table's last one: only partitions in which something happened.

`derivation.py` says when that is equal to a listing of everything, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegate.errors import FormatError
from tidegate.hudi import (
    Action,
    CommitMetadata,
    Instant,
    InstantState,
    SavepointEntries,
    SliceRules,
    compacted_groups,
    parse_data_file,
    read_entries,
)
from tidegate.hudi.clean import cleaned_partitions
from tidegate.hudi_reader import (
    HudiTable,
    PartitionFiles,
    read_partitions,
    slice_rules,
    with_merged,
)
from tidegate.savepoints.derivation import MOST_DERIVED, Changes, InDoubt, changes_since
from tidegate.savepoints.lookup import read_commits, undone_to
from tidegate.savepoints.plan import SavepointPlan, plan_savepoint
from tidegate.savepoints.view import View
from tidegate.storage import NotFound, ParallelMap
from tidegate.tables.refusal import Refused

_META_FOLDER: Final = ".hoodie"
_HELD: Final = 200_000
"""Files that the commits since may name in all: about 100 MB."""


@dataclass(frozen=True, slots=True)
class _Base:
    """The savepoint to derive from."""

    instant: str
    view: View
    entries: SavepointEntries


def derive_savepoint(
    table: HudiTable, commit: str, parallel_map: ParallelMap, most_derived: int = MOST_DERIVED
) -> SavepointPlan:
    """Plan a savepoint from the last one at or before `commit`.

    Files of its partitions that nothing changed are not looked at: Hudi removes none that a
    savepoint keeps. Those of the others have to be there.

    Raises:
        InDoubt: it can't be proven that a listing of everything would give the same.
    """
    try:
        base = _last_savepoint(table, commit)
        changes = changes_since(
            base.view, base.instant, table.properties, table.timeline, most_derived
        )
        rules = slice_rules(table)
        commits = _held(read_commits(table, changes.writes, parallel_map))
        touched = _touched(table, changes, rules, commits)
        old = {path: base.entries[path] for path in touched if path in base.entries}
        _check_paths(touched - old.keys(), base, touched)
        found = read_partitions(table.storage, table.location, sorted(touched), parallel_map)
        rules = with_merged(table, rules, found)
        listed = {each.path: each for each in found}
        replaced_bytes = sum(_size(path, names, listed) for path, names in old.items())
        earlier = _earlier_replacements(base, rules, old, listed.values())
        replacements = read_commits(table, earlier, parallel_map)
        replaced = ((timestamp, replace(each, writes=())) for timestamp, each in replacements)
        undone = undone_to(table, commit)
        new = plan_savepoint(commit, rules, [*replaced, *commits], found, undone)
        entries = base.entries.changed(dict.fromkeys(old) | dict(new.files))
    except Refused as refused:
        raise InDoubt(f"partitions that changed: {refused.message}") from refused
    except (FormatError, NotFound) as error:
        raise InDoubt(f"{type(error).__name__}: {error}") from error
    size = base.view.size - replaced_bytes + new.bytes
    count = base.view.files - sum(map(len, old.values())) + new.file_count
    names = (name for each in found for name in each.sizes)
    seen = View.of(table.properties, rules, (count, size), names)
    strangers = base.view.has_strangers or seen.has_strangers or _may_have_holes(table, base)
    view = replace(seen, has_strangers=strangers, derived=base.view.derived + 1)
    return SavepointPlan(commit, entries, size, count, view, base.instant)


def _may_have_holes(table: HudiTable, base: _Base) -> bool:
    """Whether commits after the earlier savepoint may have been archived, unseen by its view.

    Hudi does that with `hoodie.archive.beyond.savepoint`, and takes the oldest ones first. What
    they wrote counts as uncommitted, until the timeline begins after it.
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
        header, entries = read_entries(table.read(last))
        return _Base(last.timestamp, View.parse(header), entries)
    except FormatError as error:
        raise InDoubt(f"savepoint {last.timestamp} is not of this version of Tidegate") from error


def _held(commits: Iterable[tuple[str, CommitMetadata]]) -> list[tuple[str, CommitMetadata]]:
    """All of them at once: who lists everything takes one after the other."""
    held, files = list[tuple[str, CommitMetadata]](), 0
    for timestamp, metadata in commits:
        files += len(metadata.writes)
        if files > _HELD:
            raise InDoubt(f"the commits since the last savepoint name more than {_HELD} files")
        held.append((timestamp, metadata))
    return held


def _touched(
    table: HudiTable,
    changes: Changes,
    rules: SliceRules,
    commits: Iterable[tuple[str, CommitMetadata]],
) -> set[str]:
    """The partitions in which something happened."""
    written = {path for _, metadata in commits for path in metadata.partitions}
    cleaned = {path for clean in changes.cleans for path in cleaned_partitions(table.read(clean))}
    compacted = {path for path, _ in rules.compactions}
    plans = {
        Instant(compaction, Action.COMPACTION, InstantState.REQUESTED)
        for compaction in changes.compactions
    }
    since = {write.timestamp for write in changes.writes}
    plans |= {file for file in table.files if _is_plan(file) and file.timestamp in since}
    compacted |= {path for plan in plans for path, _ in compacted_groups(table.read(plan))}
    return written | cleaned | compacted


def _is_plan(file: Instant) -> bool:
    return file.action is Action.COMPACTION and file.state is InstantState.REQUESTED


def _check_paths(new: Iterable[str], base: _Base, touched: set[str]) -> None:
    """Partitions that the savepoint has not: where a listing would find them, too."""
    for path in new:
        names = path.split("/") if path else []
        if any(name in {"", ".", "..", _META_FOLDER} for name in names) or "://" in path:
            raise InDoubt(f"{path[:200]} is not a partition's path")
        above = ("/".join(names[:count]) for count in range(len(names)))
        if any(each in base.entries or each in touched for each in above):
            raise InDoubt(f"{path[:200]} is inside another partition")


def _size(path: str, names: Iterable[str], listed: Mapping[str, PartitionFiles]) -> int:
    """The bytes of the files that a partition had in the earlier savepoint."""
    sizes = listed[path].sizes if path in listed else {}
    gone = next((name for name in names if name not in sizes), None)
    if gone is not None:
        raise InDoubt(f"{gone} of {path or 'the table'} is gone, which a savepoint keeps")
    return sum(sizes[name] for name in names)


def _earlier_replacements(
    base: _Base,
    rules: SliceRules,
    old: Mapping[str, Sequence[str]],
    listed: Iterable[PartitionFiles],
) -> tuple[Instant, ...]:
    """The replacements up to the earlier savepoint, if one can have replaced a group listed now.

    A group of which that savepoint keeps a file was not replaced by then. One that was has files
    from before.
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
