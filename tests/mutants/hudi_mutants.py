"""Rules of savepoints and restores of Hudi tables that guard data, each broken on purpose."""

from __future__ import annotations

from typing import Final

from mutants.mutants import Mutant

_RESUMED: Final = "tests/restores/test_restore_resumed.py"
_RACES: Final = "tests/savepoints/test_savepoint_races.py"

HUDI_MUTANTS: Final = (
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
                "if is_there and _removals(now) == _removals(table.timeline):",
                "if not is_there or now:",
            ),
        ),
        _RACES,
    ),
    Mutant(
        "restores: a restore that is resumed goes through every check",
        "consumers/tidegate/restores/preparation.py",
        (
            (
                "    check_timeline(table.timeline, commit, later)\n",
                "    if pending is None:\n        check_timeline(table.timeline, commit, later)\n",
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
)
