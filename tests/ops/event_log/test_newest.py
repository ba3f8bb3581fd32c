"""The newest events are kept, large ones without the memory of what they were read from."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from support.deployment_events import cleaned, released, vacuum
from tidegate.events import DirectoriesCleaned
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.framing import Headers
from tidegate.events.wire import Wire
from tidegate.ops.event_log import LoggedEvent, NewestEvents, newest
from tidegate.runtime.bus import Partition, Record

HEADERS: Headers = (("ce_type", b"x"),)
NAMES = tuple(f"delta_{number:07}_{number:07}" for number in range(newest.LARGE // 20))


def record(offset: int, value: bytes, key: bytes = b"lake.sales.orders") -> Record:
    return Record(Partition("t", 0), offset, key, value, HEADERS, 1000 + offset)


def example(kind: str, offset: int = 0) -> LoggedEvent:
    """The stored message of a kind."""
    examples = files("tidegate.events").joinpath("examples")
    key = json.loads(examples.joinpath(f"{kind}.json").read_text("utf-8"))["table"].encode()
    value = examples.joinpath(f"{kind}.bin").read_bytes()
    return LoggedEvent(record(offset, value, key), Wire().deserialize(key, value, ()))


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_of_any_kind_comes_back_as_it_was(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest, "LARGE", 1)
    logged = example(kind, 7)

    [found] = NewestEvents(1, [logged])

    assert found.event == logged.event
    assert type(found.event) is type(logged.event)
    assert (found.at, found.place, found.problem) == (logged.at, logged.place, logged.problem)
    assert found.record.key == logged.record.key


def test_the_last_are_kept_and_the_others_counted() -> None:
    kept = NewestEvents(3, (example("LockReleased", offset) for offset in range(5)))

    assert [item.record.offset for item in kept] == [2, 3, 4]
    assert (len(kept), kept.dropped) == (3, 2)
    assert kept[-1].record.offset == 4
    assert [item.record.offset for item in kept[1:]] == [3, 4]


def test_none_are_kept_where_none_are_wanted() -> None:
    assert list(NewestEvents(0, [example("LockReleased")])) == []


def test_of_a_small_one_nothing_is_lost() -> None:
    logged = example("LockReleased")

    assert list(NewestEvents(1, [logged])) == [logged]


def test_of_a_large_one_neither_the_bytes_nor_the_received_message_stay_in_memory() -> None:
    """The headers of a received record refer to the client's message, with the value in it."""
    event = DirectoriesCleaned.model_validate(
        cleaned(released(vacuum(7))).model_dump(exclude={"event_id"}) | {"directories": NAMES}
    )
    unreadable = LoggedEvent(record(1, b"x" * newest.LARGE), None, "junk")
    in_parts = LoggedEvent(record(2, b"the last part"), event)

    for logged in (LoggedEvent(record(0, b"x" * newest.LARGE), event), unreadable, in_parts):
        kept = NewestEvents(1, [logged])
        assert kept[0].event == logged.event
        assert kept[0].problem == logged.problem
        assert (kept[0].record.value, kept[0].record.headers) == (None, ())
