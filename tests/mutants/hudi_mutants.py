"""Rules of savepoints and restores of Hudi tables that guard data, each broken on purpose."""

from __future__ import annotations

from typing import Final

from mutants.mutants import Mutant

_RESUMED: Final = "tests/restores/test_restore_resumed.py"
_RACES: Final = "tests/savepoints/test_savepoint_races.py"
_LOG_FILES: Final = "tests/restores/test_restore_of_merge_on_read.py"
_CRASHES: Final = "tests/restores/test_restore_crashes.py"
_MOR_RACES: Final = "tests/restores/test_merge_on_read_races.py"
_SLICES: Final = "tests/hudi/test_file_slices.py"

HUDI_MUTANTS: Final = (
    Mutant(
        "commits: a partition that is there twice is left to fastavro",
        "schemas/tidegate/hudi/write_stats.py",
        (
            (
                "                if partition in named:",
                "                if not named and partition in named:",
            ),
        ),
        "tests/hudi/test_write_stats.py",
    ),
    Mutant(
        "savepoints: a file of a pending write never counts as committed",
        "schemas/tidegate/hudi/timeline.py",
        (("        if timestamp in self._times_of_writes:\n            return False\n", ""),),
        "tests/hudi/test_hudi_timeline.py",
    ),
    Mutant(
        "savepoints: the timeline is read again once the inflight file is there",
        "consumers/tidegate/savepoints/executor.py",
        (
            (
                "if is_there and is_kept and _removals(now) == _removals(table.timeline):",
                "if not is_there or now or is_kept:",
            ),
        ),
        _RACES,
    ),
    Mutant(
        "restores: a restore that is resumed goes through every check",
        "consumers/tidegate/restores/preparation.py",
        (
            (
                "    check_timeline(table, commit, later, by_hudi=by_hudi)\n",
                (
                    "    if pending is None:\n"
                    "        check_timeline(table, commit, later, by_hudi=by_hudi)\n"
                ),
            ),
        ),
        f"{_RESUMED} -k later_savepoint",
    ),
    Mutant(
        "restores: only a plan that covers the rest approves it",
        "consumers/tidegate/restores/plan.py",
        (
            (
                "    if not summaries or not _covers(summaries, rest, completed):",
                "    if not summaries:",
            ),
        ),
        "tests/restores/test_resume_plan.py",
    ),
    Mutant(
        "restores: a request that confirms nothing is only planned",
        "consumers/tidegate/restores/executor.py",
        (("elif command.expected_plan is None and command.seen_up_to is None:", "elif not plan:"),),
        f"{_RESUMED} -k confirms_nothing",
    ),
    Mutant(
        "restores: a commit that the requester could not know of stays",
        "consumers/tidegate/restores/checks.py",
        (("    if last > bound:\n", "    if last > bound and not bound:\n"),),
        f"{_RESUMED} -k could_not_know",
    ),
    Mutant(
        "savepoints: a log file belongs to the slice that was newest when it completed",
        "schemas/tidegate/hudi/file_slice.py",
        (("for key in slices if key <= completed", "for key in slices if key <= log.instant"),),
        _SLICES,
    ),
    Mutant(
        "savepoints: while a compaction is pending, the files that it reads are kept",
        "schemas/tidegate/hudi/file_slice.py",
        (("if key <= until and (base or own)", "if key <= until"),),
        f"{_SLICES} -k kept_while",
    ),
    Mutant(
        "restores: a compaction counts by its request, its rows were there before",
        "schemas/tidegate/hudi/properties.py",
        (("COMPACTIONS if self.is_merge_on_read", "COMPACTIONS if not self.version"),),
        f"{_LOG_FILES} -k stays",
    ),
    Mutant(
        "restores: a bulk insert that overlaps the savepoint is no compaction",
        "consumers/tidegate/restores/merge_on_read.py",
        (("if commit.operation != _COMPACTS:", "if not timestamp:"),),
        f"{_LOG_FILES} -k bulk_insert",
    ),
    Mutant(
        "restores: a slice that a pending compaction began goes with it",
        "consumers/tidegate/restores/plan.py",
        ((" and instant.action is not Action.COMPACTION:", ":"),),
        f"{_LOG_FILES} -k pending_compaction_after",
    ),
    Mutant(
        "restores: rollback blocks are there before their commit is unpublished",
        "consumers/tidegate/restores/run.py",
        (
            ("            self._append_blocks(step)\n", "            pass\n"),
            (
                "            markers = join",
                "            self._append_blocks(step)\n            markers = join",
            ),
        ),
        f"{_CRASHES} -k killed_at_any",
    ),
    Mutant(
        "restores: the data files of a pass go before its pending files",
        "consumers/tidegate/restores/run.py",
        (
            (
                "self._writer.remove(f for f in files if f.state is InstantState.COMPLETED)",
                "self._writer.remove(files)",
            ),
        ),
        f"{_CRASHES} -k copy",
    ),
    Mutant(
        "restores: an instant that Hudi would not recognise once unpublished is rolled back alone",
        "consumers/tidegate/restores/passes.py",
        (("len(actions) <= 1 and actions <= _JOIN", "len(actions) >= 0"),),
        "tests/restores/test_passes.py",
    ),
    Mutant(
        "restores: the files of many commits are one parallel job",
        "consumers/tidegate/restores/passes.py",
        (("joins = descends and fits", "joins = not descends and fits"),),
        "tests/restores/test_restore_growth.py -k parallel_jobs",
    ),
    Mutant(
        "compute: a single item is no Spark job",
        "consumers/tidegate/compute/parallel_map.py",
        (
            (
                "for item in items]\n        results = self",
                "for item in items] if self.session() else []\n        results = self",
            ),
        ),
        "tests/compute/test_parallel_map.py -k single_item",
    ),
    Mutant(
        "restores: no pass goes back to a later instant",
        "consumers/tidegate/restores/passes.py",
        (("step.target.timestamp < group[-1].target.timestamp", "True"),),
        "tests/restores/test_passes.py",
    ),
    Mutant(
        "restores: a log compaction loses its pending files before the completed one",
        "consumers/tidegate/restores/run.py",
        (("if f.action is Action.LOG_COMPACTION and step.blocks", "if not f.timestamp"),),
        f"{_CRASHES} -k killed_at_any",
    ),
    Mutant(
        "restores: a rollback block that is there is not appended again",
        "consumers/tidegate/restores/log_blocks.py",
        (("written[path].target == instant.timestamp", "not written[path].target"),),
        f"{_LOG_FILES} -k not_appended_again",
    ),
    Mutant(
        "restores: what a writer that died did not say is not guessed",
        "consumers/tidegate/restores/block_preparation.py",
        (("    if not content:\n", "    if instant is None:\n"),),
        f"{_LOG_FILES} -k does_not_say",
    ),
    Mutant(
        "restores: what happened while a restore was planned makes it plan again",
        "consumers/tidegate/restores/run.py",
        (("if sorted(before, key=repr) != sorted(now, key=repr):", "if not now:"),),
        "tests/restores/test_two_restorers.py -k withdrawn",
    ),
    Mutant(
        "restores: none is complete while a commit that came during it is on top",
        "consumers/tidegate/restores/executor.py",
        (("        run.check_end()\n", ""),),
        f"{_MOR_RACES} -k write_during",
    ),
    Mutant(
        "restores: none is complete while a write that began during it is pending",
        "consumers/tidegate/restores/run.py",
        (("        elif begun:\n", "        elif False:\n"),),
        f"{_MOR_RACES} -k begins_unseen",
    ),
    Mutant(
        "restores: a commit that got a savepoint during the restore is not rolled back",
        "consumers/tidegate/restores/executor.py",
        (("            run.check_savepoints()\n            rollbacks", "            rollbacks"),),
        f"{_MOR_RACES} -k savepoint_of_hudi_s",
    ),
    Mutant(
        "restores: none is complete with a savepoint of a commit that is gone",
        "consumers/tidegate/restores/run.py",
        (("timeline = self.check_savepoints()", "timeline = self._reload().timeline"),),
        f"{_MOR_RACES} -k savepoint_of_hudi_s",
    ),
    Mutant(
        "timeline: what Hudi is about to rename is no instant",
        "producers/tidegate/hudi_reader/table.py",
        ((r"(?:tmp|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", "tmp"),),
        "tests/savepoints/test_savepoint_races.py -k draft",
    ),
    Mutant(
        "restores: the metadata table is dropped where a write had begun",
        "consumers/tidegate/restores/metadata_table.py",
        (("instant.state is InstantState.REQUESTED", "instant.timestamp"),),
        "tests/restores/test_metadata_table.py",
    ),
    Mutant(
        "savepoints: commits are read where a later one replaced what may have been there",
        "consumers/tidegate/savepoints/relevance.py",
        (("each.timestamp > commit for each in writes", "False for each in writes"),),
        "tests/savepoints/test_relevance.py tests/savepoints/test_savepoint_growth.py",
    ),
    Mutant(
        "savepoints: commits from the bound of the clean on are read",
        "consumers/tidegate/savepoints/relevance.py",
        (("return write.timestamp >= until or ", "return "),),
        "tests/savepoints/test_savepoint_growth.py",
    ),
    Mutant(
        "savepoints: a commit of which a file is left is read",
        "consumers/tidegate/savepoints/relevance.py",
        ((" or unnamed or write.timestamp in left", " or unnamed"),),
        "tests/savepoints/test_savepoint_growth.py -k file_is_left",
    ),
    Mutant(
        "savepoints: delta commits whose log files do not name them are read",
        "consumers/tidegate/savepoints/relevance.py",
        ((" or unnamed or write.timestamp", " or write.timestamp"),),
        "tests/savepoints/test_relevance.py -k delta_commits",
    ),
    Mutant(
        "savepoints: what a compaction did not merge is of its slice",
        "schemas/tidegate/hudi/file_slice.py",
        (
            (
                "            if merged is None:\n                found",
                "            if merged is None or merged:\n                found",
            ),
        ),
        "tests/hudi/test_file_slices.py",
    ),
    Mutant(
        "savepoints: the plans of compactions that overtook archived writes are read",
        "consumers/tidegate/savepoints/full_listing.py",
        (("with_merged(table, slice_rules(table), partitions)", "slice_rules(table)"),),
        "tests/savepoints/test_savepoint_writer.py -k overtaken",
    ),
    Mutant(
        "savepoints: what may be of either slice is kept with both",
        "schemas/tidegate/hudi/file_slice.py",
        (
            (
                "return (*filter(None, found), *unknown)",
                "return (*filter(None, found), *unknown)[:1]",
            ),
        ),
        "tests/hudi/test_file_slices.py",
    ),
    Mutant(
        "savepoints: an unread plan of a compaction may be one",
        "schemas/tidegate/hudi/file_slice.py",
        ((" or instant in self.rules.unknown", ""),),
        "tests/savepoints/test_overlapping_writes.py -k archiver",
    ),
    Mutant(
        "savepoints: where writes overlapped, they have what a restore leaves",
        "consumers/tidegate/savepoints/plan.py",
        (("if overlapped else None", "if not commit else None"),),
        "tests/savepoints/test_overlapping_writes.py -k kept",
    ),
    Mutant(
        "savepoints: times of modification leave nothing out",
        "consumers/tidegate/savepoints/overlaps.py",
        (("    if layout is Layout.ONE:\n        return False\n", ""),),
        "tests/savepoints/test_overlapping_writes.py -k version_6",
    ),
    Mutant(
        "savepoints: a compaction that began before the commit completed overlaps it",
        "consumers/tidegate/savepoints/overlaps.py",
        ((" or commit < write.timestamp < end", ""),),
        "tests/savepoints/test_overlapping_writes.py -k kept",
    ),
    Mutant(
        "savepoints: what an overlapping write followed has to be there",
        "consumers/tidegate/savepoints/plan.py",
        (("        _refuse_missing(after.missing(left))\n", ""),),
        "tests/savepoints/test_overlapping_writes.py -k refused",
    ),
    Mutant(
        "savepoints: none is derived from one with overlapping writes",
        "consumers/tidegate/savepoints/derivation.py",
        (
            (
                "if overlaps(commit.timestamp, Timeline(seen), properties.layout, undone):",
                "if not seen:",
            ),
        ),
        "tests/savepoints/test_overlapping_writes.py -k derived",
    ),
    Mutant(
        "restores: change data are no log files to write a rollback block after",
        "consumers/tidegate/restores/log_blocks.py",
        ((" or file.is_change_data:", ":"),),
        "tests/restores/test_restore_of_merge_on_read.py -k change_data",
    ),
)
