"""The decoder's way for records that are as they should be, judged by its general way."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzz_inputs import damaged
from support.samples import EveryThird, commit, memory_bus, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import FormatError
from tidegate.events import Event, LockReleased, VacuumFinished
from tidegate.events.codec import encode
from tidegate.events.keys import partition_of
from tidegate.events.message import Headers
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.decoder import Decoder

PARTITIONS: Final = 7
EXAMPLES: Final = tuple(
    files("tidegate.events").joinpath("examples", f"{name}.bin").read_bytes()
    for name in ("LockReleased", "VacuumFinished", "CommitCompleted", "CleaningReleased")
)
COMMAND: Final = EXAMPLES[-1]
TABLE: Final = "lake.sales.orders"
RIGHT: Final = partition_of(TABLE, PARTITIONS)


def decoder() -> Decoder:
    """One that knows no key yet: what it decodes first goes the general way."""
    return Decoder((VacuumFinished, LockReleased), "tidegate", PARTITIONS)


def generally() -> Decoder:
    """One that looks at what every record claims to hold."""
    made = decoder()
    made._readers = {}
    return made


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


def answer(of: Decoder, what: Record) -> Event | str | None:
    """The event, or the reason of its refusal."""
    try:
        return of.decode(what)
    except FormatError as error:
        return str(error)


@given(
    value=damaged(EXAMPLES) | st.none(),
    topic=st.sampled_from(["tidegate.locks", "tidegate.vacuums", "tidegate.commands", "other"]),
    number=st.integers(0, PARTITIONS - 1),
    key=st.sampled_from([TABLE.encode(), b"a.b.c", b"", None]),
)
def test_a_key_that_is_known_changes_no_answer(
    value: bytes | None, topic: str, number: int, key: bytes | None
) -> None:
    warm = decoder()
    for each in (TABLE, "a.b.c"):
        where = partition_of(each, PARTITIONS)
        assert warm.decode(record(release(1, each), number=where, key=each.encode())) is not None
    what = record(value, topic, number, key)

    assert answer(warm, what) == answer(generally(), what)


@pytest.mark.parametrize(
    ("topic", "is_passed_over"),
    [
        pytest.param("tidegate.commands", True, id="where it belongs"),
        pytest.param("tidegate.locks", False, id="elsewhere"),
    ],
)
def test_another_services_event_is_passed_over_without_decoding_it(
    topic: str,
    is_passed_over: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    of = decoder()
    said = answer(of, record(COMMAND[:10], topic))
    assert said == answer(generally(), record(COMMAND[:10], topic))
    assert (said is None) == is_passed_over


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
def test_of_a_known_key_what_is_wrong_is_refused(wrong: Record) -> None:
    warm = decoder()
    assert warm.decode(record(release(1))) is not None
    assert warm.decode(record(release(2))) is not None

    with pytest.raises(FormatError):
        warm.decode(wrong)


@pytest.mark.parametrize("fault", [RecursionError("deep"), OverflowError("large"), KeyError("x")])
def test_bytes_that_a_decoder_has_a_bug_for_are_dead_lettered_and_what_follows_goes_on(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    bus = memory_bus(EveryThird.name, partitions=1)
    bus.send([Message("tidegate.commits", b"k", b"trap", (), 0)])
    bus.send([message(commit(number)) for number in range(3)])
    contents = Wire.contents

    def trapped(wire: Wire, value: bytes | None, headers: Headers) -> object:
        if value == b"trap":
            raise fault
        return contents(wire, value, headers)

    monkeypatch.setattr(Wire, "contents", trapped)
    loop = CoordinatorLoop(EveryThird(), bus)
    loop.step(0)
    loop.close()

    [found] = bus.records("tidegate.dead-letters")
    assert dict(found.headers)["tidegate-fault"] == b"message"
    assert len(bus.records("tidegate.commands")) == 1
