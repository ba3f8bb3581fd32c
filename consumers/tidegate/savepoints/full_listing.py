"""Planning a savepoint by a listing of all partitions."""

from __future__ import annotations

from dataclasses import replace

from tidegate.hudi_reader import HudiTable, list_partitions, slice_rules, with_merged
from tidegate.savepoints.lookup import read_commits, undone_to
from tidegate.savepoints.plan import SavepointPlan, plan_savepoint
from tidegate.savepoints.relevance import commits_to_read
from tidegate.savepoints.view import View
from tidegate.storage import ParallelMap


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
