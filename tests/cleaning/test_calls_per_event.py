"""What an event costs the reader gate, counted as calls: seconds differ by machine."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from tidegate.cleaning import ReaderGate
from tidegate.events import Event, LockHold, LockReleased, VacuumFinished
from tidegate.events.topics import TOPICS, changelog, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Record
from tidegate.runtime.decider.loop import DeciderLoop
from tidegate.runtime.memory.bus import MemoryBus, MemorySubscription

if TYPE_CHECKING:
    import pytest

CHANGELOG: Final = changelog(ReaderGate.name).name()
COMMANDS: Final = "tidegate.commands"
NOT_COUNTED: Final = ("/memory/", "/publisher/", "events/keys.py", "/lib/")
"""What the bus in memory calls, and the interpreter's and libraries' own functions."""


def vacuum(number: int) -> VacuumFinished:
    first = 10 * number
    return VacuumFinished.model_validate(
        {
            **subject(number),
            "kind": "minor",
            "directories": (f"delta_{number + 1:07}_{number + 3:07}",),
            "min_write_id": number + 1,
            "max_write_id": number + 3,
            "valid_write_ids": f"db.t:{number + 3}:9223372036854775807::",
            "own_lock_id": first,
            "locks": tuple(LockHold(lock_id=first + n, owner="ana") for n in range(2)),
        }
    )


def release(lock_id: int, number: int) -> LockReleased:
    return LockReleased.model_validate({**subject(number), "lock_id": lock_id})


def subject(number: int) -> dict[str, Any]:
    table = f"hive.db.t{number % 10}"
    at = datetime(2026, 11, 21, second=number % 60, tzinfo=UTC)
    return {"table": table, "location": f"/w/{table}", "occurred_at": at, "source": "bench"}


def sent(bus: MemoryBus, events: list[Event]) -> int:
    bus.send([Wire().serialize(event, topic_of(type(event)).name()) for event in events])
    return len(events)


def settled() -> tuple[MemoryBus, DeciderLoop[Any]]:
    """A gate that has seen its tables, and what else is done once."""
    bus = MemoryBus([*(topic.name() for topic in TOPICS), CHANGELOG], 1)
    loop = DeciderLoop(ReaderGate(), bus)
    loop.step(0)
    for number in range(10):
        sent(bus, [vacuum(number), release(10 * number, number), release(10 * number + 1, number)])
        loop.step(0)
    while loop.step(0):
        pass
    return bus, loop


def counted(action: Callable[[], object]) -> Counter[str]:
    """The calls of Python's functions, by name."""
    found = Counter[str]()

    def count(frame: FrameType, what: str, _: object) -> None:
        code = frame.f_code
        is_tuple = code.co_name == "<lambda>"  # of a named tuple: the bus makes most of them
        if what == "call" and not is_tuple and not any(p in code.co_filename for p in NOT_COUNTED):
            found[f"{code.co_filename.rpartition('/')[2]}:{code.co_name}"] += 1

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found


def per_event(bus: MemoryBus, loop: DeciderLoop[Any], events: list[Event]) -> float:
    count = sent(bus, events)
    return counted(lambda: loop.step(0)).total() / count


def test_an_event_takes_few_calls() -> None:
    bus, loop = settled()
    numbers = range(100, 500)

    waiting = per_event(bus, loop, [vacuum(number) for number in numbers])
    first = per_event(bus, loop, [release(10 * number, number) for number in numbers])
    last = per_event(bus, loop, [release(10 * number + 1, number) for number in numbers])
    own = counted(lambda: loop.step(0)).total() / len(numbers)
    loop.close()

    assert waiting <= 62
    assert first <= 21
    assert last <= 54
    assert own <= 3, "a command of its own, which it reads back"


def test_records_are_made_while_no_garbage_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, loop = settled()
    sent(bus, [vacuum(number) for number in range(100, 2500)])
    collecting: list[bool] = []
    poll = MemorySubscription.poll

    def watched(self: MemorySubscription, limit: int, timeout: float) -> Sequence[Record]:
        collecting.append(gc.isenabled())
        return poll(self, limit, timeout)

    monkeypatch.setattr(MemorySubscription, "poll", watched)
    loop.step(0)
    loop.close()

    assert collecting == [False] * 3
    assert gc.isenabled()
