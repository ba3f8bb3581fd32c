"""The rules of a decider's writes, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import DECIDERS, RUNTIME, Mutant

_LARGE = "tests/runtime/test_large_commands.py"
_OWNED = RUNTIME + "decider/owned_partitions.py"

DECIDER_MUTANTS = (
    Mutant(
        "rule 2: a write that is tried again has the tables, not only the positions",
        _OWNED,
        (
            (
                "owned.changelog.write(records))",
                "owned.changelog.write(owned.store.changed_records()))",
            ),
        ),
        f"{DECIDERS} -k tried_again",
    ),
    Mutant(
        "rule 2: no write runs on when another has failed",
        _OWNED,
        (("        wait(running)\n", ""),),
        f"{DECIDERS} -k runs_on",
    ),
    Mutant(
        "rule 1: state made for another number of partitions is refused",
        RUNTIME + "decider/state_store.py",
        (("        if self.partitions != count:\n", "        if not count:\n"),),
        f"{DECIDERS} -k number_of_partitions",
    ),
    Mutant(
        "rule 3: a table's main record comes after its pieces",
        RUNTIME + "decider/state_store.py",
        (
            ("            written += self._changed_pieces(table, loaded)\n", ""),
            (
                "            written.append((table.encode(), value))\n",
                """            written.append((table.encode(), value))
            written += self._changed_pieces(table, loaded)
""",
            ),
        ),
        f"{DECIDERS} -k between_the_pieces",
    ),
    Mutant(
        "rule 6: a command that its topic refuses makes its event a dead letter",
        RUNTIME + "decider/loop.py",
        (
            (
                '        if all(len(each.value or b"") <=',
                '        if all(len(each.value or b"") >= 0 <=',
            ),
        ),
        f"{_LARGE} -k event_of_a_command",
    ),
    Mutant(
        "rule 6: commands keep their order around a large one",
        RUNTIME + "decider/loop.py",
        (("        self._publish(pending.messages)\n        pending.messages = []\n", ""),),
        f"{_LARGE} -k order",
    ),
    Mutant(
        "rule 6: a broker that is away makes no dead letter of an event",
        RUNTIME + "decider/loop.py",
        (
            (
                "if isinstance(error, StopService) or is_broker_fault(error):",
                "if isinstance(error, StopService):",
            ),
        ),
        f"{_LARGE} -k delivered",
    ),
    Mutant(
        "no record of a changelog is larger than a megabyte",
        RUNTIME + "decider/pieces.py",
        (("len(record) > MAX_RECORD_BYTES", "len(record) > 2 * MAX_RECORD_BYTES"),),
        f"{_LARGE} -k record_above",
    ),
)
