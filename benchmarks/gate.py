"""One table on which very many vacuums wait, through the coordinator's loop on the bus in memory.

    .venv/bin/python benchmarks/gate.py [--vacuums 100000] [--holds 20] [--json]

It measures the events a second (vacuums that come to wait, releases that set one free), the bytes
that an event writes to the changelog early and late, the largest record, and the vacuums a second
at which a restart reads the changelog back and has every one in its index. It counts the calls of
our own Python functions per event, which no other machine changes. The broker's own part is not in
it: see bus.py (d).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from types import FrameType
from typing import Any, Final, NamedTuple

from report import Line, line, show

from support.memory_bus import MemoryBus
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.store import Store
from tidegate.events import Event, LockHold, LockReleased, VacuumFinished, VacuumKind
from tidegate.events.topics import ALL_TOPICS, topic_of
from tidegate.events.wire import Wire

SUBJECT: Final[dict[str, Any]] = {
    "table": "hive.db.t",
    "location": "/w/t",
    "occurred_at": datetime(2026, 11, 21, tzinfo=UTC),
    "source": "bench",
}
CHANGELOG: Final = "tidegate.coordinator.changelog"
NOT_COUNTED: Final = ("/memory_bus.py", "/publisher/", "events/topics.py", "/lib/")
"""The bus in memory, what it calls, and the functions of the interpreter and of libraries."""


class Seconds(NamedTuple):
    """Of the clock, and of this process's processor time: a busy machine has others."""

    clock: float
    processor: float


def vacuum(number: int, holds: int, **place: str) -> VacuumFinished:
    """A vacuum that waits for locks which no other has."""
    first = number * holds
    return VacuumFinished(
        **(SUBJECT | place),
        kind=VacuumKind.MINOR,
        directories=(f"delta_{number + 1:07}_{number + 2:07}",),
        min_write_id=number + 1,
        max_write_id=number + 2,
        valid_write_ids=f"db.t:{number + 2}:9223372036854775807::",
        own_lock_id=first,
        locks=tuple(LockHold(lock_id=first + n, owner="ana@notebook") for n in range(holds)),
    )


def releases(number: int, holds: int, **place: str) -> list[LockReleased]:
    """The releases of its locks."""
    subject = SUBJECT | place
    return [LockReleased(**subject, lock_id=number * holds + n) for n in range(holds)]


def send(bus: MemoryBus, events: Iterable[Event]) -> int:
    """Publish events; return their number."""
    messages = [Wire().serialize(event, topic_of(type(event)).name()) for event in events]
    bus.send(messages)
    return len(messages)


def work(loop: CoordinatorLoop, count: int) -> Seconds:
    """Process so many events."""
    began, cpu, left = time.perf_counter(), time.process_time(), count
    while left > 0:
        left -= loop.step(0)
    return Seconds(time.perf_counter() - began, time.process_time() - cpu)


def written(bus: MemoryBus, start: int) -> list[int]:
    """The bytes of the changelog's records from an index on."""
    return [len(r.key or b"") + len(r.value or b"") for r in bus.records(CHANGELOG)[start:]]


def measure(vacuums: int, holds: int) -> Iterator[Line]:
    """Run all; a line each."""
    topics = [topic.name() for topic in ALL_TOPICS]
    bus = MemoryBus(topics, 1)
    loop = CoordinatorLoop(ReaderGate(), bus)
    loop.step(0)
    part, parts, sizes = max(1, vacuums // 10), list[Seconds](), list[float]()
    for start in range(0, vacuums, part):
        end, before = min(start + part, vacuums), len(bus.records(CHANGELOG))
        count = send(bus, (vacuum(n, holds) for n in range(start, end)))
        took = work(loop, count)
        parts.append(Seconds(took.clock / count, took.processor / count))
        sizes.append(sum(written(bus, before)) / count)
    yield line("a vacuum more, events a second", 1 / parts[-1].clock, 5000, at_least=True)
    yield line("the same, of processor time", 1 / parts[-1].processor, 5000, at_least=True)
    growth = parts[-1].processor / parts[0].processor
    yield line("its cost with all waiting to that with a tenth", growth, 2)
    yield line("its bytes with all waiting to those with a tenth", sizes[-1] / sizes[0], 2)
    before, freed = len(bus.records(CHANGELOG)), max(1, 20_000 // holds)
    count = send(bus, (release for n in range(freed) for release in releases(n, holds)))
    took = work(loop, count)
    yield line("a release, events a second", count / took.clock, 5000, at_least=True)
    yield line("the same, of processor time", count / took.processor, 5000, at_least=True)
    yield line("a release, bytes of the changelog", sum(written(bus, before)) / count, 4000)
    yield line("largest record, bytes", max(written(bus, 0)), 1_000_000)
    loop.close()
    records = [(record.key or b"", record.value) for record in bus.records(CHANGELOG)]
    gate, store = ReaderGate(), Store(ReaderGate().row_types)
    began, cpu = time.perf_counter(), time.process_time()
    store.restore(records)
    gate.restored(store)
    [waiting] = store.one("select count(*) from vacuum")
    clock, processor = time.perf_counter() - began, time.process_time() - cpu
    yield line("read back and indexed, vacuums a second", waiting / clock, 5_000, at_least=True)
    yield line("the same, of processor time", waiting / processor, 5_000, at_least=True)


def calls_per_event(bus: MemoryBus, loop: CoordinatorLoop, events: Sequence[Event]) -> float:
    """Process events in one step; return how many calls of our functions one of them took."""
    count, calls = send(bus, events), 0

    def count_call(frame: FrameType, what: str, _: object) -> None:
        nonlocal calls
        code = frame.f_code
        is_tuple = code.co_name == "<lambda>"  # of a named tuple: the bus makes most of them
        if what == "call" and not is_tuple:
            calls += not any(part in code.co_filename for part in NOT_COUNTED)

    sys.setprofile(count_call)
    try:
        loop.step(0)
    finally:
        sys.setprofile(None)
    return calls / count


def measure_calls() -> Iterator[Line]:
    """Count the calls of a gate that has seen its table; a line for each kind of event."""
    bus = MemoryBus([topic.name() for topic in ALL_TOPICS], 1)
    loop = CoordinatorLoop(ReaderGate(), bus)
    loop.step(0)
    numbers = range(100, 500)
    send(bus, [vacuum(1, 2), *releases(1, 2)])
    while loop.step(0):
        pass
    waiting = calls_per_event(bus, loop, [vacuum(number, 2) for number in numbers])
    yield line("a vacuum that waits, calls", waiting)
    first = calls_per_event(bus, loop, [releases(number, 2)[0] for number in numbers])
    yield line("a release that frees none, calls", first)
    last = calls_per_event(bus, loop, [releases(number, 2)[1] for number in numbers])
    yield line("a release that frees a vacuum while a task is running, calls", last, 100)
    # a table each: nothing is before the task
    tables = {number: {"table": f"hive.db.t{number}"} for number in numbers}
    calls_per_event(bus, loop, [vacuum(number, 1, **tables[number]) for number in numbers])
    freed = [release for number in numbers for release in releases(number, 1, **tables[number])]
    yield line("a release that leads to a task, calls", calls_per_event(bus, loop, freed), 100)
    loop.close()


def main() -> None:
    """Measure, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vacuums", type=int, default=100_000)
    parser.add_argument("--holds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    show(chain(measure_calls(), measure(given.vacuums, given.holds)), as_json=given.json)


if __name__ == "__main__":
    main()
