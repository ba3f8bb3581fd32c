"""Mutants of the events and of what publishes them."""

from __future__ import annotations

from mutants.mutants import Mutant

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
