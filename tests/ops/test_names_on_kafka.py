"""A name that no signature proves is marked by every command that shows it, on a real broker."""

from __future__ import annotations

import re
from typing import Final

import pytest
from typer.testing import CliRunner

from support.deployment_events import ORDERS, approved, awaiting, publish, restore_request, started
from support.replays import Place
from tidegate.cli import app
from tidegate.errors import PermanentError
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = pytest.mark.kafka
CUSTOMERS: Final = "lake.sales.customers"
UNMARKED: Final = re.compile(r"\b(?:ana|ben|mara|nils)\b(?! \(unsigned\))")


def tidegate(place: Place, *words: str) -> str:
    file = str(place.folder / "tidegate.toml")
    answer = CliRunner().invoke(app, [*words, "-c", file])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.output


def decide(place: Place, decision: str, service: str, by: str, *words: str) -> None:
    said = tidegate(
        place, "dead-letters", decision, "--service", service, "--requested-by", by, *words
    )
    assert "1 dead letter" in said


def test_status_explain_and_the_lists_of_events_mark_who_no_signature_proves(place: Place) -> None:
    asked, other = restore_request(), restore_request("restore-2", CUSTOMERS)
    under = {"approval": "approval-1", "approved_by": "ben"}
    began = started(asked).model_copy(update=under)
    facts = [asked, approved(asked), began, other, awaiting(other)]
    publish(place.servers, place.prefix, *facts)
    bus, [record] = KafkaBus(place.settings().connection()), place.audience.records("requests")[:1]
    for service in ("restorer", "cleaner"):
        error = PermanentError("a bug")
        bus.send([dead_letter(record, service, error, f"{place.prefix}.dead-letters")])
    bus.close()
    decide(place, "discard", "restorer", "mara", "--reason", "a test", "--execute")
    decide(place, "redrive", "cleaner", "nils", "--destructive", "--execute")

    shown = {
        words: tidegate(place, *words.split())
        for words in (
            "status",
            f"explain {ORDERS}",
            f"explain {CUSTOMERS}",
            "outcomes",
            "events tail --topic requests --no-follow",
        )
    }

    assert {words: UNMARKED.findall(text) for words, text in shown.items()} == {
        words: [] for words in shown
    }
    assert "requested by ana (unsigned): tidegate publish approval " in shown["status"]
    assert "; approved by ben (unsigned)\n" in shown["status"]
    assert ": a test; requested by mara (unsigned)\n" in shown["outcomes"]
    assert "(a bug); requested by nils (unsigned)\n" in shown[f"explain {ORDERS}"]
