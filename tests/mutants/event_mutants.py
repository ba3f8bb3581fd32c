"""Mutants of the events and of what publishes them."""

from __future__ import annotations

from mutants.mutants import Mutant

_READER = "schemas/tidegate/events/compiled_reader.py"
_COMPILED = "tests/events/test_compiled.py"

EVENT_MUTANTS = (
    Mutant(
        "a fact under another fact's id is refused",
        "schemas/tidegate/events/base.py",
        (
            (
                '        raise ValueError("event_id is not',
                '        return self.event_id\n        raise ValueError("event_id is not',
            ),
        ),
        "tests/events/test_fact_ids.py",
    ),
    Mutant(
        "a fact under another fact's id is not read at once",
        _READER,
        (("""!= {values["event_id"]}: return None')""", """== "": return None')"""),),
        _COMPILED,
    ),
    Mutant(
        "a value beyond a limit is not read at once",
        _READER,
        (
            (
                '            self._add(f"if len({made}) {beyond}: return None")\n',
                "            pass\n",
            ),
        ),
        _COMPILED,
    ),
    Mutant(
        "a rule over several fields is applied at once, too",
        _READER,
        (
            (
                """            self._add(f"{self._name('rule', rule)}({event})")\n""",
                "            pass\n",
            ),
        ),
        _COMPILED,
    ),
    Mutant(
        "what is behind a body is not passed over",
        _READER,
        (('        self._add("if i != len(b): return None")\n', ""),),
        _COMPILED,
    ),
    Mutant(
        "a rule over several fields is applied to checked values, too",
        "schemas/tidegate/events/assembled.py",
        (("    for rule in _rules(kind):\n", "    for rule in ():\n"),),
        _COMPILED,
    ),
    Mutant(
        "the key of a known table does not open another partition",
        "consumers/tidegate/runtime/input/decoder.py",
        ((" if number == right else None\n", "\n"),),
        "tests/runtime/test_decoder.py",
    ),
    Mutant(
        "the key of a known table carries no other table's event",
        "consumers/tidegate/runtime/input/decoder.py",
        (("if event is not None and event.table == table:", "if event is not None:"),),
        "tests/runtime/test_decoder.py",
    ),
    Mutant(
        "another service's event is passed over only where it belongs",
        "consumers/tidegate/runtime/input/decoder.py",
        (
            (
                "self._readers[self._topics[kind]][single",
                'self._readers["tidegate.locks"][single',
            ),
        ),
        "tests/runtime/test_decoder.py",
    ),
    Mutant(
        "every attempt to publish a request has the same id",
        "producers/tidegate/publisher/publisher.py",
        (
            (
                "own_id = str(uuid4()) if request_id is None else request_id\n",
                "own_id = str(uuid4())\n",
            ),
        ),
        "tests/publisher/test_request_ids.py",
    ),
)
