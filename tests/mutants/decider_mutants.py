"""The rules of a decider's writes, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import DECIDERS, RUNTIME, Mutant

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
)
