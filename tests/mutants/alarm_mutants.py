"""The rules of what is due although no event comes, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import RUNTIME, Mutant

_TICKS = "tests/runtime/test_piece_ticks.py"
_GATE = "tests/cleaning/test_gate_alarms.py"
_ALARMS = "consumers/tidegate/cleaning/gate_alarms.py"
_DECISION = "consumers/tidegate/cleaning/gate_decision.py"

ALARM_MUTANTS = (
    Mutant(
        "alarms: nothing is due before every event up to now was applied",
        RUNTIME + "decider/piece_ticks.py",
        (
            (
                "        for number in self._read_to_the_end(numbers):\n",
                "        for number in numbers:\n",
            ),
        ),
        f"{_TICKS} -k backlog",
    ),
    Mutant(
        "alarms: what time alone adds to the largest record is not refused",
        RUNTIME + "decider/loop.py",
        (("table, decision, TIMED_BYTES)\n", "table, decision)\n"),),
        f"{_TICKS} -k adds",
    ),
    Mutant(
        "alarms: what was decided without an event is written at once",
        RUNTIME + "decider/loop.py",
        (
            (
                "table, decision, TIMED_BYTES)\n            owned.pending.has_ticked = True\n",
                "table, decision, TIMED_BYTES)\n",
            ),
        ),
        f"{_TICKS} -k without_any_event",
    ),
    Mutant(
        "alarms: what was said is remembered",
        "consumers/tidegate/cleaning/gate_state.py",
        (
            (
                '        details["overdue_since"] = vacuum.overdue_since.isoformat()\n',
                "        pass\n",
            ),
        ),
        f"{_GATE} -k said_once",
    ),
    Mutant(
        "alarms: a vacuum that is released after all ends its alarm",
        _DECISION,
        (("            if vacuum.overdue_since is not None:\n", "            if not vacuum:\n"),),
        f"{_GATE} -k released_that_is_said",
    ),
    Mutant(
        "alarms: a table with a vacuum is known",
        _DECISION,
        (("        if index.is_unknown:\n", "        if index is None:\n"),),
        f"{_GATE} -k unknown -k known",
    ),
    Mutant(
        "alarms: the first pattern that matches a table sets its limits",
        _ALARMS,
        (("for each in rules if", "for each in reversed(rules) if"),),
        f"{_GATE} -k first_rule",
    ),
)
