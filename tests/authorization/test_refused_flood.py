"""A flood of refused commands fills neither the outcomes nor the dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from support.memory_bus import MemoryBus
from support.samples import (
    NOON,
    commit,
    memory_bus,
    message,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from support.signing import Obeying, entry, restore, settings, signed, work
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import CleaningHoldRequested, Command
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letters import counted
from tidegate.runtime.input.uncopied import OF_A_KEY, OF_A_PARTITION
from tidegate.service.assembly import authorization

FLOOD = 300


def hold(number: int, table: str) -> Command:
    return CleaningHoldRequested.about(
        commit(number, table), requested_by="eve", reason="x", source="test", occurred_at=NOON
    )


def forged_task(number: int, table: str) -> Message:
    return task_message(savepoint_request(number, table))


def executor(bus: MemoryBus) -> None:
    loop = ExecutorLoop(Obeying(), bus, authorization=authorization(settings(entry()), "memory"))
    work_off(loop)
    loop.close()


def coordinator(bus: MemoryBus) -> None:
    loop = CoordinatorLoop(
        ReaderGate(), bus, authorization=authorization(settings(entry()), "memory")
    )
    while loop.step(0):
        pass
    loop.close()


@pytest.mark.parametrize(
    ("run", "sent"),
    [
        pytest.param(executor, forged_task, id="of an executor"),
        pytest.param(coordinator, lambda *of: message(hold(*of)), id="of the coordinator"),
    ],
)
@pytest.mark.parametrize(
    ("table", "limit"),
    [
        pytest.param("lake.sales.t{}", OF_A_PARTITION, id="of many tables"),
        pytest.param("lake.sales.orders", OF_A_KEY, id="of one table"),
    ],
)
def test_of_a_flood_of_refused_commands_few_have_an_outcome_and_none_is_lost(
    run: Callable[[MemoryBus], None], sent: Callable[[int, str], Message], table: str, limit: int
) -> None:
    bus = memory_bus(partitions=1)
    bus.send([sent(number, table.format(number)) for number in range(FLOOD)])

    run(bus)

    outcomes = outcomes_on(bus)
    dead_letters = bus.records("tidegate.dead-letters")
    not_answered = [counted(record.headers) for record in dead_letters]
    assert len(outcomes) == limit
    assert len(dead_letters) == limit + 1
    assert {fault for fault, _ in not_answered} == {"message"}
    assert len(outcomes) + sum(count for _, count in not_answered) == FLOOD


def test_a_signed_command_behind_the_flood_is_carried_out() -> None:
    bus, obeying = memory_bus(partitions=1), Obeying()
    flood: Sequence[Message] = [forged_task(n, "lake.sales.orders") for n in range(FLOOD)]
    bus.send([*flood, signed(restore())])
    work(settings(entry()), bus, obeying)

    assert obeying.obeyed == [restore().event_id]
