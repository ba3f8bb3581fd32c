"""How an executor's rules could be broken."""

from __future__ import annotations

from mutants.mutants import EXECUTORS, RUNTIME, Mutant

_FAIRNESS = "tests/runtime/test_fairness.py"

EXECUTOR_MUTANTS = (
    Mutant(
        "rule 4: the queued commands of a lost partition do not run",
        RUNTIME + "executor/loop.py",
        (
            ("        self._tasks.discard(lambda task: task.record.partition in partitions)\n", ""),
            (
                "        if not self._still_owns(task):  # its next owner runs it\n",
                "        if False:\n",
            ),
        ),
        f"{_FAIRNESS} -k lost",
    ),
    Mutant(
        "what is done is acknowledged before its partition is given away",
        RUNTIME + "executor/loop.py",
        (("        self._commit_finished(wait=True)\n", "        self._commit_finished()\n"),),
        f"{EXECUTORS} -k given_away",
    ),
    Mutant(
        "rule 3: a command that is written again finds its outcome from before",
        RUNTIME + "executor/outcome_lookup.py",
        (("min(appended_ms, made_ms) - CLOCK_MARGIN_MS", "appended_ms"),),
        f"{EXECUTORS} -k written_again",
    ),
    Mutant(
        "a command between two attempts is not acknowledged",
        RUNTIME + "executor/loop.py",
        (
            (
                "                return wait\n            self._dead",
                "                return self._finished.put((task, None))\n            self._dead",
            ),
        ),
        f"{_FAIRNESS} -k do_not_delay_the_end",
    ),
    Mutant(
        "rule 3: an outcome on another partition than its table's is found",
        RUNTIME + "executor/outcome_lookup.py",
        (("            self._extend(spans)\n", "            pass\n"),),
        "tests/runtime/test_outcome_lookup.py -k other_partition",
    ),
    Mutant(
        "rule 3: a command that was answered before the topics grew is not carried out again",
        RUNTIME + "executor/outcome_lookup.py",
        (("        if partitions != self.partitions or again:", "        if again:"),),
        "tests/runtime/test_outcome_lookup.py -k grew",
    ),
)
