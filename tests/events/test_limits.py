"""Every field has a limit, at the caller and at the reader, and the schemas say which."""

from __future__ import annotations

import json
import tracemalloc
from importlib.resources import files
from io import BytesIO
from typing import Any

import fastavro
import pytest
from pydantic import ValidationError

from support.samples import commit, deserialized, message, release, savepoint_request
from tidegate.errors import FormatError
from tidegate.events import CleaningRefused, Event, LockHold, VacuumFinished
from tidegate.events.base import Fact
from tidegate.events.codec import decode, encode, schema_text, single_object_prefix
from tidegate.events.fields import MAX_MESSAGE_CHARS, MAX_VALUE_BYTES, MAX_WIDE_BYTES
from tidegate.events.topics import EVENT_TYPES, REQUESTS
from tidegate.events.wire import Wire

STATED = ("At most", "14 or 17 digits", "Shortened to")

FACTS = [kind for kind in EVENT_TYPES.values() if issubclass(kind, Fact)]


def example(kind: str) -> dict[str, Any]:
    text = files("tidegate.events").joinpath("examples", f"{kind}.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    if EVENT_TYPES[kind] in FACTS:
        content["event_id"] = ""
    return content


LOCK = example("VacuumFinished")["locks"][0]
BEYOND = [
    ("CommitCompleted", "table", "a.b." + "c" * 430_000),
    ("CommitCompleted", "instant", "2" * 800_000),
    ("CommitCompleted", "instant", "~000"),
    ("CommitCompleted", "instant", "202603011000000001"),
    ("CommitCompleted", "completion_time", "tomorrow"),
    ("CommitCompleted", "action", "a" * 1_001),
    ("CommitCompleted", "source", "a" * 1_001),
    ("CommitCompleted", "location", "/" + "a" * 4_000),
    ("CommitCompleted", "location", "lake/orders"),
    ("CommitCompleted", "location", "/lake/\x1b[2Jorders"),
    ("CommitCompleted", "bytes_written", 2**63),
    ("CommitCompleted", "extra_metadata", {str(n): "" for n in range(1_001)}),
    ("CommitCompleted", "extra_metadata", {"a": "b" * 100_001}),
    ("VacuumFinished", "directories", ["../../other/delta_1_3"]),
    ("VacuumFinished", "directories", ["delta_1_3/"]),
    ("VacuumFinished", "directories", ["d" * 256]),
    ("VacuumFinished", "directories", [f"delta_{n}_{n}" for n in range(1_001)]),
    ("VacuumFinished", "partition", "p" * 1_001),
    ("VacuumFinished", "valid_write_ids", "a.b:" + "9" * 250_000),
    ("VacuumFinished", "locks", [LOCK | {"lock_id": 41 + n} for n in range(100_001)]),
    ("VacuumFinished", "open_transactions", list(range(100_001))),
    ("VacuumFinished", "max_write_id", 2**62),
    ("LockReleased", "lock_id", -1),
    ("LockReleased", "transaction_id", 2**62),
    ("SavepointRequested", "instant", "../../x"),
    ("SavepointRequested", "comment", "c" * 10_001),
    ("RestoreRequested", "savepoint", "1"),
    ("RestoreRequested", "seen_up_to", "now"),
    ("RestoreRequested", "location", "relative"),
    ("RestoreRequested", "event_id", "x" * 101),
    ("RestoreRequested", "reason", ""),
    ("CleaningReleased", "directories", ["a/b"]),
]


@pytest.mark.parametrize(
    ("kind", "field", "value"), BEYOND, ids=[f"{case[0]}.{case[1]}" for case in BEYOND]
)
def test_a_value_beyond_a_limit_is_refused_at_the_caller(
    kind: str, field: str, value: object
) -> None:
    EVENT_TYPES[kind].model_validate(example(kind))
    with pytest.raises(ValidationError, match=field):
        EVENT_TYPES[kind].model_validate(example(kind) | {field: value})


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        pytest.param(commit(1), "instant", "~000", id="an instant"),
        pytest.param(commit(1), "table", "a.b." + "c" * 430_000, id="a table"),
        pytest.param(commit(1), "location", "orders", id="a location"),
        pytest.param(release(1), "lock_id", -5, id="a lock"),
        pytest.param(savepoint_request(1), "comment", "c" * 10_001, id="a comment"),
    ],
)
def test_a_value_beyond_a_limit_on_a_topic_is_a_format_error(
    event: Event, field: str, value: object
) -> None:
    foreign = message(event.model_copy(update={field: value}))

    with pytest.raises(FormatError, match=field):
        deserialized(Wire(), foreign)


@pytest.mark.parametrize("size", [MAX_VALUE_BYTES, MAX_WIDE_BYTES])
def test_a_value_that_is_too_large_is_refused_before_it_is_decoded(size: int) -> None:
    too_large = single_object_prefix(type(commit(1))) + bytes(size)

    with pytest.raises(FormatError, match="the limit is"):
        decode(too_large)
    with pytest.raises(FormatError, match="the limit is"):
        Wire().deserialize(b"lake.sales.orders", too_large)
    assert (Wire().kind(too_large) is None) == (size == MAX_WIDE_BYTES)


def vacuum(locks: int) -> VacuumFinished:
    """With what a Metastore says of each lock."""
    held = [
        LockHold(
            lock_id=40_000_000 + 7 * number,
            transaction_id=90_000_000 + 11 * number,
            partition=f"day=2026-11-{number % 30:02}",
            owner=f"user{number % 500}@worker-{number % 50}.cluster.example.com",
        )
        for number in range(locks)
    ]
    fields = {"own_lock_id": held[0].lock_id, "locks": held}
    return VacuumFinished.model_validate(example("VacuumFinished") | fields)


def test_a_vacuum_of_eighty_thousand_locks_is_larger_than_other_events_and_is_read() -> None:
    event = vacuum(80_000)
    value = encode(event)

    assert MAX_VALUE_BYTES < len(value) < MAX_WIDE_BYTES
    assert decode(value) == event


def zigzag(number: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def test_a_wide_value_with_more_locks_than_the_limit_is_refused_in_little_memory() -> None:
    """Each block is within the limit; all of them would be half a million locks."""
    one = encode(vacuum(1))
    head = one[: one.rindex(zigzag(40_000_000)) - 1]  # without the number of locks
    block = zigzag(100_000) + 100_000 * bytes(5)
    value = head + 5 * block + bytes(2)
    assert MAX_VALUE_BYTES < len(value) < MAX_WIDE_BYTES

    tracemalloc.start()
    with pytest.raises(FormatError, match="the limit is"):
        decode(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 64 * 2**20


def test_a_long_message_of_an_outcome_is_shortened_and_the_outcome_is_published() -> None:
    outcome = CleaningRefused.about(
        commit(1),
        source="cleaner",
        occurred_at=commit(1).occurred_at,
        reason="link-inside",
        message="m" * (MAX_MESSAGE_CHARS + 1),
    )

    assert outcome.message == "m" * (MAX_MESSAGE_CHARS - 1) + "…"


def test_an_outcome_takes_every_location_that_its_cause_may_have() -> None:
    cause = commit(1).model_copy(update={"location": "/" + "a" * 3_999})

    assert (
        CleaningRefused.about(
            cause, source="c", occurred_at=cause.occurred_at, reason="r", message="m"
        ).location
        == cause.location
    )


@pytest.mark.parametrize("kind", [*FACTS, *REQUESTS], ids=lambda kind: kind.__name__)
def test_the_schema_documents_every_limit(kind: type[Event]) -> None:
    def open_ended(type_: Any) -> bool:  # noqa: ANN401 - any Avro type
        match type_:
            case list():
                return any(map(open_ended, type_))
            case dict():
                return str(type_["type"]) in {"array", "map"}
            case name:
                return str(name) == "string"

    schema = json.loads(schema_text(kind.__name__))
    fields = [field for field in schema["fields"] if open_ended(field["type"])]

    assert fields
    assert [f["name"] for f in fields if not any(text in f["doc"] for text in STATED)] == []
