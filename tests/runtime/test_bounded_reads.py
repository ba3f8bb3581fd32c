"""What reads topics holds little, however large the messages are: counted in bytes and messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import read_dead_letter
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka import records

if TYPE_CHECKING:
    import pytest

MB = 2**20
BYTES = bytes(MB)
QUEUED = 4
"""Messages of a megabyte that the client fetches ahead: see `queued.max.messages.kbytes`."""


@dataclass
class Received:
    """A message of the client's."""

    number: int
    at: int
    size: int

    def __len__(self) -> int:
        return self.size

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return BYTES[: self.size]

    def timestamp(self) -> tuple[int, int]:
        return 1, 4 * self.at + self.number

    def headers(self) -> list[tuple[str, bytes]]:
        return [("a", b"b")]


@dataclass
class Client:
    """Gives messages of these sizes, of the first partition that is not paused and has more."""

    sizes: dict[int, list[int]]
    asked: list[int] = field(default_factory=list[int])
    paused: set[int] = field(default_factory=set[int])
    given: dict[int, int] = field(default_factory=dict[int, int])

    def poll(self, _: float) -> Received | None:
        found = self.consume(1, 0)
        return found[0] if found else None

    def consume(self, count: int, _: float) -> list[Received]:
        self.asked.append(count)
        for number, sizes in self.sizes.items():
            start = self.given.get(number, 0)
            if number not in self.paused and start < len(sizes):
                stop = min(start + count, start + QUEUED, len(sizes))
                self.given[number] = stop
                return [Received(number, at, sizes[at]) for at in range(start, stop)]
        return []

    def pause(self, parts: list[object]) -> None:
        self.paused |= {part.partition for part in parts}  # type: ignore[attr-defined]

    def resume(self, parts: list[object]) -> None:
        self.paused -= {part.partition for part in parts}  # type: ignore[attr-defined]

    def assign(self, _: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_records_that_wait_for_their_turn_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client({number: [MB] * 200 for number in range(4)})
    monkeypatch.setattr(records, "Consumer", lambda _: client)
    spans = {Partition("t", number): range(200) for number in range(4)}
    most, times = 0, list[int]()
    for record in records.read_in_order({}, spans):
        most = max(most, MB * (sum(client.given.values()) - len(times)))
        times.append(record.timestamp_ms)

    assert times == list(range(800))
    assert most <= (32 + 4 * QUEUED) * MB


def test_a_row_of_a_list_does_not_hold_the_value() -> None:
    headers = (("a", b"b"), ("x-exception-stacktrace", BYTES))
    record = Record(Partition("t", 0), 7, b"lake.sales.orders", BYTES, headers, 5)

    complete = read_dead_letter(record, Wire())
    slim = complete.without_value()

    assert (slim.record.value, slim.record.headers) == (None, (("a", b"b"),))
    assert slim.dead_letter_id == complete.dead_letter_id
    assert slim.table == "lake.sales.orders"
