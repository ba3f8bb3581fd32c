"""Faults that were put in by hand once, and that no test of their module noticed."""

from __future__ import annotations

from mutants.mutants import DECIDERS, RUNTIME, Mutant

_PINNED = "tests/runtime/test_pinned_rules.py"
_LOOP = RUNTIME + "decider/loop.py"
_LETTERS = RUNTIME + "input/dead_letters.py"
_IDS = "schemas/tidegate/events/base.py"

PINNED_MUTANTS = (
    Mutant(
        "rule 4: a changelog is read after its fence",
        RUNTIME + "decider/owned_partitions.py",
        (
            (
                (
                    "            for number, records in"
                    " self._changelog.acquire(numbers, known=kept.keys()):\n"
                ),
                """            early = {n: [(each.key or b"", each.value) for each in self._bus.log(
                Partition(self._topic, n))] for n in numbers}
            list(self._changelog.acquire(numbers))
            for number, records in early.items():
""",
            ),
        ),
        f"{_PINNED} -k fenced",
    ),
    Mutant(
        "rule 2: commands that were not delivered stop the step",
        _LOOP,
        (
            (
                "        except MessageTooLargeError as error:\n            raise StopService(\n",
                """        except Exception as error:
            return
            raise StopService(
""",
            ),
        ),
        f"{DECIDERS} -k not_delivered",
    ),
    Mutant(
        "rule 6: no dead letter is dropped while the broker is away",
        _LETTERS,
        (
            (
                "        try:\n            self.retries.call(lambda: self.bus.send([letter]))\n",
                """        try:
            try:
                self.retries.call(lambda: self.bus.send([letter]))
            except MessageTooLargeError:
                raise
            except Exception:
                return
""",
            ),
        ),
        f"{_PINNED} -k not_written",
    ),
    Mutant(
        "rule 6: an executor's dead letter that was not written stops the service",
        RUNTIME + "executor/loop.py",
        (
            (
                "            return fault if isinstance(fault, StopService) else stop\n",
                "            return None\n",
            ),
        ),
        f"{_PINNED} -k executor",
    ),
    Mutant(
        "rule 3: a dead letter's id is derived from its place",
        _LETTERS,
        (
            (
                'derived_id("dead-letter", group, where.topic, number, offset, stamp)',
                "__import__('uuid').uuid4().hex",
            ),
        ),
        f"{_PINNED} -k same_id",
    ),
    Mutant(
        "rule 3: no fact's id depends on a clock",
        _IDS,
        (
            (
                "return derived_id(kind.__name__, *",
                "return derived_id(kind.__name__, self.occurred_at, *",
            ),
        ),
        "tests/events/test_fact_ids.py",
    ),
    Mutant(
        "rule 3: no command's id depends on a clock",
        _IDS,
        (
            (
                "        return derived_id(kind.__name__, *",
                """        if kind.__name__ == "CleaningReleased":
            return derived_id(str(self.occurred_at), *_identity_of(kind)(self))
        return derived_id(kind.__name__, *""",
            ),
        ),
        "tests/cleaning/test_gate.py -k id_of_a_command",
    ),
    Mutant(
        "rule 2: what a decider began is acknowledged before its partition is given away",
        _LOOP,
        (("        self._finish(wait=True)\n", "        self._finish()\n"),),
        f"{_PINNED} -k given_away",
    ),
)
