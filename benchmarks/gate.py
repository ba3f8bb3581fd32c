"""One table on which very many vacuums wait, through the decider's loop on the bus in memory.

    .venv/bin/python benchmarks/gate.py [--vacuums 100000] [--holds 20] [--json]

It measures the events a second (vacuums that come to wait, releases that set one free), the bytes
that an event writes to the changelog early and late, the largest record, and the vacuums a second
at which a restart reads the changelog back, all by the processor's time. The broker's own part is
not in it: see bus.py.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from tidegate.cleaning import ReaderGate
from tidegate.events import Event, LockHold, LockReleased, VacuumFinished, VacuumKind
from tidegate.events.topics import TOPICS, changelog, topic_of
from tidegate.events.wire import Wire
from tidegate.runtime.decider.loop import DeciderLoop
from tidegate.runtime.decider.state_store import store_of
from tidegate.runtime.memory.bus import MemoryBus

SUBJECT: Final[dict[str, Any]] = {
    "table": "hive.db.t",
    "location": "/w/t",
    "occurred_at": datetime(2026, 11, 21, tzinfo=UTC),
    "said_by": "bench",
}
CHANGELOG: Final = changelog(ReaderGate.name).name()


def vacuum(number: int, holds: int) -> VacuumFinished:
    """A vacuum that waits for locks which no other has."""
    first = number * holds
    return VacuumFinished(
        **SUBJECT,
        kind=VacuumKind.MINOR,
        directories=(f"delta_{number + 1:07}_{number + 2:07}",),
        min_write_id=number + 1,
        max_write_id=number + 2,
        valid_write_ids=f"db.t:{number + 2}:9223372036854775807::",
        own_lock_id=first,
        locks=tuple(LockHold(lock_id=first + n, owner="ana@notebook") for n in range(holds)),
    )


def releases(number: int, holds: int) -> list[LockReleased]:
    """The releases of its locks."""
    return [LockReleased(**SUBJECT, lock_id=number * holds + n) for n in range(holds)]


def send(bus: MemoryBus, events: Iterable[Event]) -> int:
    """Publish events; return their number."""
    messages = [Wire().serialize(each, topic_of(type(each)).name()) for each in events]
    bus.send(messages)
    return len(messages)


def work(loop: DeciderLoop[Any], count: int) -> float:
    """Process so many events; return the seconds of this process: a busy machine has others."""
    began = time.process_time()
    while count > 0:
        count -= loop.step(0)
    return time.process_time() - began


def written(bus: MemoryBus, start: int) -> list[int]:
    """The bytes of the changelog's records from an index on."""
    return [len(r.key or b"") + len(r.value or b"") for r in bus.records(CHANGELOG)[start:]]


def measure(vacuums: int, holds: int) -> list[dict[str, Any]]:
    """Run all; a line each."""
    topics = [*(each.name() for each in TOPICS), CHANGELOG]
    bus = MemoryBus(topics, 1)
    loop = DeciderLoop(ReaderGate(), bus)
    loop.step(0)
    part, seconds, sizes = max(1, vacuums // 10), [0.0], [0]
    for start in range(0, vacuums, part):
        end, before = min(start + part, vacuums), len(bus.records(CHANGELOG))
        count = send(bus, (vacuum(n, holds) for n in range(start, end)))
        seconds.append(work(loop, count) / count)
        sizes.append(sum(written(bus, before)) // count)
    before, freed = len(bus.records(CHANGELOG)), max(1, 20_000 // holds)
    count = send(bus, (each for n in range(freed) for each in releases(n, holds)))
    freeing = work(loop, count) / count
    last = sum(written(bus, before)) // count
    records = [(each.key or b"", each.value) for each in bus.records(CHANGELOG)]
    store = store_of(ReaderGate())
    began = time.process_time()
    store.restore(records)
    restored = time.process_time()
    waiting = store.state("hive.db.t").loaded.waiting
    opened = time.process_time()
    loop.close()
    largest = max(written(bus, 0))
    return [
        _line("a vacuum more, events a second", 1 / seconds[-1], 5000),
        _line("its cost with none waiting to that with all", seconds[1] / seconds[-1], 0.5),
        _line("its bytes with none waiting to those with all", sizes[1] / sizes[-1], 0.5),
        _line("a release, events a second", 1 / freeing, 5000),
        _line("a release, bytes (at most 4000): their inverse", 4000 / last, 1),
        _line("largest record (1 MB): its inverse", 2**20 / largest, 1),
        _line("read back, vacuums a second", vacuums / (restored - began), 100_000),
        _line("read back and indexed, vacuums a second", waiting / (opened - began), None),
    ]


def _line(goal: str, ours: float, wanted: float | None) -> dict[str, Any]:
    ratio = None if wanted is None else round(ours / wanted, 2)
    reached = None if wanted is None else ours >= wanted
    return {
        "goal": goal,
        "ours": round(ours, 2),
        "peer": None,
        "ratio": ratio,
        "wanted": wanted,
        "reached": reached,
    }


def main() -> None:
    """Measure, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vacuums", type=int, default=100_000)
    parser.add_argument("--holds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for line in measure(given.vacuums, given.holds):
        wanted = f" (wanted {line['wanted']:,})" if line["wanted"] else ""
        print(json.dumps(line) if given.json else f"{line['goal']}: {line['ours']:,}{wanted}")


if __name__ == "__main__":
    main()
