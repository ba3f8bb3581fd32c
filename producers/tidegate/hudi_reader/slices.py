"""The rules that assign a table's files to file slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from tidegate.errors import FormatError
from tidegate.hudi.file_slice import SliceRules, compactions_to_read, repeated_writes
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.table_services import compacted_groups, merged_files
from tidegate.hudi_reader.partitions import PartitionFiles
from tidegate.hudi_reader.table import HudiTable
from tidegate.storage import NotFound

T = TypeVar("T")


def slice_rules(table: HudiTable) -> SliceRules:
    """Read the plans of the pending compactions; most tables have at most one.

    Raises:
        FormatError: a plan can't be read; the message names the compaction.
        NotFound: a plan was removed meanwhile.
    """
    pending = (InstantState.REQUESTED, InstantState.INFLIGHT)
    compactions: dict[tuple[str, str], str] = {}
    for instant in table.timeline.of_action(Action.COMPACTION, *pending):
        groups = _read_plan(table, instant.timestamp, compacted_groups)
        compactions |= dict.fromkeys(groups, instant.timestamp)
    return SliceRules(table.timeline, table.properties.layout, compactions)


def with_merged(
    table: HudiTable, rules: SliceRules, partitions: Sequence[PartitionFiles]
) -> SliceRules:
    """The rules for the files of these partitions.

    Reads the commits that wrote several base files of one file group, most often none. Reads the
    plans of the compactions after archived delta commits whose log files still exist. A table that
    is cleaned as often as it is archived has none.

    Raises:
        FormatError: a plan can't be read, or a log file's name has an unknown form.
    """
    merged, unknown = dict(rules.merged), set(rules.unknown)
    needed = {i for p in partitions for i in compactions_to_read(p.path, p.sizes, rules)}
    pending = {file.timestamp for file in table.files if file.state is not InstantState.COMPLETED}
    for instant in sorted(needed - merged.keys()):
        if instant not in pending:  # archived, or an archiver has begun with its plan
            unknown.add(instant)
            continue
        with suppress(NotFound):  # another kind of write
            merged[instant] = _read_plan(table, instant, merged_files)
    named = set(rules.named)
    repeated = {instant for p in partitions for instant in repeated_writes(p.sizes)}
    for commit in filter(None, map(table.timeline.completed_write, sorted(repeated))):
        writes = table.read_commit(commit).writes
        named |= {(stat.partition, stat.path.rpartition("/")[2]) for stat in writes}
    return replace(rules, merged=merged, unknown=unknown, named=named)


def _read_plan(table: HudiTable, instant: str, decode: Callable[[bytes], T]) -> T:
    content = table.read(Instant(instant, Action.COMPACTION, InstantState.REQUESTED))
    try:
        return decode(content)
    except FormatError as error:
        raise FormatError(f"{instant}.compaction.requested: {error}") from error
