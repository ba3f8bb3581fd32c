"""How an executor's rules could be broken."""

from __future__ import annotations

from mutants.mutants import EXECUTORS, RUNTIME, Mutant

_KEPT = "tests/runtime/test_kept_commands.py"
_FAIRNESS = "tests/runtime/test_fairness.py"
_SPILLED = "tests/runtime/test_spilled_commands.py"

EXECUTOR_MUTANTS = (
    Mutant(
        "rule 4: the queued commands of a lost partition do not run",
        RUNTIME + "executor/loop.py",
        (
            (
                "        self._tasks.discard(_is_lost)\n",
                "",
            ),
            (
                "            if task.offsets.ownership is Ownership.LOST:\n",
                "            if False:\n",
            ),
        ),
        f"{_FAIRNESS} -k lost",
    ),
    Mutant(
        "what is done is acknowledged before its partition is given away",
        RUNTIME + "executor/loop.py",
        (("self._commit(revoked, wait=True)", "self._commit(revoked, wait=False)"),),
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
    Mutant(
        "a command that is done is not run again when its partition comes back",
        RUNTIME + "executor/offset_tracker.py",
        (("        elif offset < self._end:\n", "        elif False:\n"),),
        f"{_KEPT} -k done",
    ),
    Mutant(
        "rule 4: a command does not start while its partition may be another's",
        RUNTIME + "executor/loop.py",
        (
            (
                "            if task.offsets.ownership is Ownership.SUSPENDED:\n",
                "            if False:\n",
            ),
        ),
        f"{_KEPT} -k start",
    ),
    Mutant(
        "a command that ends soon is acknowledged before its partition goes",
        RUNTIME + "executor/loop.py",
        (("            self._await_running()\n", "            pass\n"),),
        f"{_KEPT} -k soon",
    ),
    Mutant(
        "rule 3: outcomes are looked up again when a partition comes back",
        RUNTIME + "executor/loop.py",
        (
            (
                "        if attempts.assignments != task.offsets.assignments:\n",
                "        if False:\n",
            ),
        ),
        f"{_KEPT} -k outcomes",
    ),
    Mutant(
        "rule 3: a partition on which another process has read on is not gone on with",
        RUNTIME + "executor/offset_tracker.py",
        (("        if not self._first <= start <= ", "        if not 0 <= start + 0 * "),),
        f"{_KEPT} -k read_on",
    ),
    Mutant(
        "of a table's many commands only the next ones are in memory",
        RUNTIME + "executor/backlog.py",
        (("        return table.in_memory < self._share() and ", "        return "),),
        f"{_SPILLED} -k stuck",
    ),
    Mutant(
        "no number of tables takes all places of a partition",
        RUNTIME + "executor/backlog.py",
        (("- self._in_memory - promised) // _SHARE", ") // _SHARE"),),
        f"{_SPILLED} -k stuck",
    ),
    Mutant(
        "a table's commands run in order, those that were not kept too",
        RUNTIME + "executor/backlog.py",
        (("        if not found.offsets and self._has_room", "        if self._has_room"),),
        "tests/runtime/test_backlog.py -k whatever_comes",
    ),
    Mutant(
        "a command that is read again after another tracker took over is queued once",
        RUNTIME + "executor/backlog.py",
        (
            (
                "        if found is None or found.offsets[0] != offset:\n",
                "        if found is None:\n",
            ),
        ),
        "tests/runtime/test_backlog.py -k own_turn",
    ),
    Mutant(
        "rule 7: commands that the topic no longer has are not passed over",
        RUNTIME + "executor/command_reader.py",
        (
            (
                "            if offsets:\n                raise",
                "            if False:\n                raise",
            ),
        ),
        f"{_SPILLED} -k named",
    ),
    Mutant(
        "commands are read again for as long as the broker is away",
        RUNTIME + "executor/command_reader.py",
        (("min(self._failed, self._retries.attempts - 1)", "self._failed"),),
        f"{_SPILLED} -k away",
    ),
    Mutant(
        "first attempts that hang leave a thread to the others",
        RUNTIME + "executor/keyed_executor.py",
        (("                    run.is_long = True\n", "                    pass\n"),),
        f"{_FAIRNESS} -k first_attempts_that_hang",
    ),
    Mutant(
        "the last thread of all is kept for first attempts",
        RUNTIME + "executor/keyed_executor.py",
        ((" and not is_last", ""),),
        f"{_FAIRNESS} -k last_thread",
    ),
    Mutant(
        "no more tasks run at once than threads are set",
        RUNTIME + "executor/keyed_executor.py",
        (
            (
                "        if len(self._runs) - self._long() >= self._max_counted:\n",
                "        if False:\n",
            ),
            ("min(self._max_threads, self._max_counted + self._long())", "self._max_threads"),
        ),
        f"{_FAIRNESS} -k quick_tasks",
    ),
    Mutant(
        "the number of threads is bounded, whatever hangs",
        RUNTIME + "executor/keyed_executor.py",
        (
            (
                "min(self._max_threads, self._max_counted + self._long())",
                "self._max_counted + self._long()",
            ),
        ),
        f"{_FAIRNESS} -k bounded",
    ),
    Mutant(
        "of two commands that arrive at once none waits for the other's thread",
        RUNTIME + "executor/keyed_executor.py",
        (("                        self._wake_one()  # of", "                        pass  # of"),),
        f"{_FAIRNESS} -k arrive_at_once",
    ),
    Mutant(
        "rule 6: a schema that nobody can read stops the service, however few the tables are",
        RUNTIME + "input/dead_letters.py",
        (("        return len(seen)\n", "        pass\n"),),
        "tests/runtime/test_dead_letter_limit.py -k nobody_can_read",
    ),
    Mutant(
        "rule 6: bad writers of some tables stop nobody who is heard in between",
        RUNTIME + "input/dead_letters.py",
        (("    if not marks[_SUCCEEDED] and len", "    if len"),),
        "tests/runtime/test_dead_letter_limit.py -k in_between",
    ),
    Mutant(
        "what has no room in memory is not read again and again",
        RUNTIME + "executor/backlog.py",
        (("            self._has_refused = True\n", ""),),
        "tests/runtime/test_backlog.py -k again_and_again",
    ),
)
