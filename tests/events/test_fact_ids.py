"""The id of a fact is derived from its content: no publisher can use another fact's id."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from support.samples import NOON, commit, deserialized, memory_bus, message, release
from tidegate.errors import FormatError
from tidegate.events import CommitCompleted, Event, Fact, LockHold, VacuumFinished, derived_id
from tidegate.events.wire import Wire
from tidegate.runtime.input.decoder import Decoder
from tidegate.runtime.retry import BROKER_RETRIES

VACUUM: dict[str, Any] = {
    "table": "lake.sales.orders",
    "location": "/lake/orders",
    "occurred_at": NOON,
    "source": "compactor",
    "kind": "minor",
    "directories": ("delta_0000001_0000003",),
    "min_write_id": 1,
    "max_write_id": 3,
    "valid_write_ids": "sales.orders:3:9223372036854775807::",
    "own_lock_id": 7,
    "locks": (LockHold(lock_id=7),),
}
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "tidegate.events")


def forged(event: Event, event_id: str) -> Event:
    return event.model_copy(update={"event_id": event_id})


@pytest.mark.parametrize(
    "fact",
    [commit(1), release(1), VacuumFinished.model_validate(VACUUM)],
    ids=lambda fact: type(fact).__name__,
)
def test_a_fact_that_is_reported_again_later_has_the_same_id(fact: Fact) -> None:
    later = fact.model_dump(exclude={"event_id"}) | {"occurred_at": NOON + timedelta(days=1)}
    assert type(fact).model_validate(later).event_id == fact.event_id


@pytest.mark.parametrize(
    "fact",
    [commit(1), release(1), VacuumFinished.model_validate(VACUUM)],
    ids=lambda fact: type(fact).__name__,
)
def test_a_fact_under_another_facts_id_is_a_format_error(fact: Fact) -> None:
    message_ = message(forged(fact, commit(2).event_id))

    with pytest.raises(FormatError, match="event_id is not the id of this content"):
        deserialized(Wire(), message_)
    assert deserialized(Wire(), message(fact)) == fact


def test_a_forged_fact_is_dead_lettered_by_the_services() -> None:
    bus, decoder = memory_bus(), Decoder((CommitCompleted,), "tidegate", 3, BROKER_RETRIES, Wire())
    bus.send([message(forged(commit(1), commit(2).event_id)), message(commit(3))])
    bad, good = bus.records("tidegate.commits")

    with pytest.raises(FormatError, match="event_id"):
        decoder.decode(bad)
    assert decoder.decode(good) == commit(3)


def test_a_wrong_id_is_refused_before_it_is_published() -> None:
    with pytest.raises(ValidationError, match="leave it out"):
        VacuumFinished.model_validate(VACUUM | {"event_id": commit(1).event_id})


@given(st.lists(st.one_of(st.none(), st.text(), st.integers()), max_size=4))
def test_an_id_is_a_version_5_uuid(parts: list[object]) -> None:
    text = "\x1f".join("" if part is None else str(part) for part in parts)

    assert derived_id(*parts) == str(uuid.uuid5(_NAMESPACE, text))
