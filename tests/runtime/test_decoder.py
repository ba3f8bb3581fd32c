"""Which records become events, and which are refused."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import pytest

from support.samples import EveryThird, commit, memory_bus, message, outcomes_on
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import FormatError
from tidegate.events import LockReleased, VacuumFinished
from tidegate.events.codec import Headers, encode
from tidegate.events.topics import partition_of
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.decoder import Decoder

PARTITIONS: Final = 7
COMMAND: Final = files("tidegate.events").joinpath("examples/CleaningReleased.bin").read_bytes()
TABLE: Final = "lake.sales.orders"
RIGHT: Final = partition_of(TABLE, PARTITIONS)


def decoder() -> Decoder:
    return Decoder((VacuumFinished, LockReleased), "tidegate", PARTITIONS)


def release(lock_id: int, table: str = TABLE) -> bytes:
    fields = {"table": table, "location": "/t", "occurred_at": "2026-11-22T12:00:00Z"}
    return encode(LockReleased.model_validate({**fields, "source": "x", "lock_id": lock_id}))


def record(
    value: bytes | None,
    topic: str = "tidegate.locks",
    number: int = RIGHT,
    key: bytes | None = TABLE.encode(),
) -> Record:
    return Record(Partition(topic, number), 0, key, value, (), 0)


@pytest.mark.parametrize(
    ("topic", "is_passed_over"),
    [
        pytest.param("tidegate.tasks", True, id="where it belongs"),
        pytest.param("tidegate.locks", False, id="elsewhere"),
    ],
)
def test_another_services_event_is_passed_over_without_decoding_it(
    topic: str,
    is_passed_over: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    what = record(COMMAND[:10], topic)
    if is_passed_over:
        assert decoder().decode(what) is None
    else:
        with pytest.raises(FormatError, match="belongs on"):
            decoder().decode(what)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(record(release(2), number=(RIGHT + 1) % PARTITIONS), id="the partition"),
        pytest.param(record(release(2), topic="tidegate.vacuums"), id="the topic"),
        pytest.param(record(release(2, "a.b.c")), id="the key"),
        pytest.param(record(release(2) + b"\x00"), id="a byte more"),
        pytest.param(record(release(2)[:-1]), id="a byte less"),
        pytest.param(record(release(2).replace(b"/t", b"./")), id="a value beyond a limit"),
    ],
)
def test_a_record_with_one_fault_is_refused(wrong: Record) -> None:
    assert decoder().decode(record(release(2))) is not None

    with pytest.raises(FormatError):
        decoder().decode(wrong)


@pytest.mark.parametrize("fault", [RecursionError("deep"), OverflowError("large"), KeyError("x")])
def test_bytes_that_a_decoder_has_a_bug_for_are_dead_lettered_and_what_follows_goes_on(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    bus = memory_bus(partitions=1)
    bus.send([Message("tidegate.commits", b"k", b"trap", (), 0)])
    bus.send([message(commit(number)) for number in range(3)])
    schema = Wire.schema

    def trapped(wire: Wire, value: bytes | None, headers: Headers) -> object:
        if value == b"trap":
            raise fault
        return schema(wire, value, headers)

    monkeypatch.setattr(Wire, "schema", trapped)
    loop = CoordinatorLoop(EveryThird(), bus)
    loop.step(0)
    loop.close()

    [found] = bus.records("tidegate.dead-letters")
    assert dict(found.headers)["tidegate-fault"] == b"message"
    assert len(outcomes_on(bus)) == 1
