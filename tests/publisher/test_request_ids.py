"""A request keeps its id over retries, so that what was stored after all is not done twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.memory_bus import MemoryBus
from support.samples import events_on, memory_bus, outcomes_on, work_off
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.errors import DeliveryError, InvalidEventError
from tidegate.events import RestoreCompleted, RestoreStarted
from tidegate.publisher import Message, Publisher, Receipt
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.savepoints.executor import SavepointWriter

LATER = "20260301130000000"
CLOSED = "127.0.0.1:9"
TABLE: dict[str, Any] = {"table": "lake.sales.orders", "location": "/lake/orders"}
RESTORE: dict[str, Any] = {"savepoint": at(2), "requested_by": "ana", "reason": "bad load"}


@dataclass
class LostConfirmations:
    """Stores every message on a memory bus; the confirmations of the first sends are lost."""

    bus: MemoryBus
    lost: int = 1
    sent: list[Message] = field(default_factory=list[Message])

    def send(self, messages: Sequence[Message]) -> list[Receipt]:
        self.sent += messages
        self.bus.send(messages)
        self.lost -= 1
        if self.lost >= 0:
            raise DeliveryError("1 of 1 messages were not confirmed: timed out")
        return [Receipt(message.topic, 0, 0) for message in messages]

    def close(self) -> None:
        pass


def publisher_on(bus: MemoryBus, lost: int = 1) -> Publisher:
    publisher = Publisher(CLOSED, source="cli")
    vars(publisher)["_producer"] = LostConfirmations(bus, lost)
    return publisher


def savepointed(root: Path) -> HandMade:
    table = four_commits(root / "orders", 9)
    writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))
    return table


def carry_out(coordinator: CoordinatorLoop, worker: ExecutorLoop) -> None:
    for _ in range(2):  # the second time, what the worker published
        while coordinator.step(0):
            pass
        work_off(worker)


def test_a_request_stored_despite_its_delivery_error_and_sent_again_is_one_restore(
    tmp_path: Path,
) -> None:
    table, bus = savepointed(tmp_path), memory_bus()
    restorer = Restorer(
        warehouse_over(tmp_path), ThreadMap(), ticking(), RestoreSettings(watch_seconds=0)
    )
    coordinator, worker = CoordinatorLoop(ReaderGate(), bus), ExecutorLoop(restorer, bus)
    request: dict[str, Any] = {"table": "lake.sales.orders", "location": table.location, **RESTORE}
    publisher = publisher_on(bus)
    with pytest.raises(DeliveryError) as error:
        publisher.request_restore(**request, seen_up_to=at(4))
    carry_out(coordinator, worker)
    table.commit(LATER, at(2))  # what the table's writers did in between

    receipt = publisher.request_restore(
        **request, seen_up_to=at(4), request_id=error.value.event_ids[0]
    )
    carry_out(coordinator, worker)

    assert receipt.event_id == error.value.event_ids[0]
    kinds = [type(event) for event in outcomes_on(bus)]
    assert kinds.count(RestoreStarted) == 1
    assert kinds.count(RestoreCompleted) == 1
    assert any(name.startswith(LATER) for name in timeline_names(table))


def test_a_request_without_an_id_of_the_callers_gets_its_own_and_says_it() -> None:
    bus = memory_bus()
    publisher = publisher_on(bus, lost=0)

    first = publisher.request_savepoint(**TABLE, requested_by="ana")
    second = publisher.request_savepoint(**TABLE, requested_by="ana")
    kept = publisher.request_savepoint(**TABLE, requested_by="ana", request_id="ticket-4711")

    ids = [event.event_id for event in events_on(bus, "tidegate.requests")]
    assert ids == [first.event_id, second.event_id, kept.event_id]
    assert first.event_id != second.event_id
    assert kept.event_id == "ticket-4711"


def test_a_delivery_error_says_with_which_id_to_repeat_a_request() -> None:
    publisher = publisher_on(memory_bus())

    with pytest.raises(DeliveryError) as error:
        publisher.request_restore(**TABLE, **RESTORE)

    assert len(error.value.event_ids) == 1
    assert f"repeat with the request id {error.value.event_ids[0]}" in str(error.value)


def test_a_fact_needs_no_id_to_be_published_again() -> None:
    bus = memory_bus()
    publisher = publisher_on(bus)

    with pytest.raises(DeliveryError) as error:
        publisher.lock_released(**TABLE, lock_id=5)
    again = publisher.lock_released(**TABLE, lock_id=5)

    assert error.value.event_ids == (again.event_id,)
    assert "request id" not in str(error.value)


@pytest.mark.parametrize("bad", ["", " ", "a b", "x" * 101, "\x1b[2J", "-x"])
def test_a_request_id_is_a_short_word(bad: str) -> None:
    with pytest.raises(InvalidEventError, match="event_id"):
        publisher_on(memory_bus()).request_restore(**TABLE, **RESTORE, request_id=bad)
