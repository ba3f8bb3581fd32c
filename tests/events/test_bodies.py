"""Bodies of facts: what is written is read again, and nothing beyond a limit is read."""

from __future__ import annotations

from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.budget import examples
from support.event_examples import example_of
from support.fuzz_inputs import avro_long, damaged
from tidegate.errors import FormatError
from tidegate.events import (
    Event,
    LockHold,
    LockReleased,
    LockType,
    ReleaseReason,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.codec import decode, encode, encode_body, schema_of, single_object_prefix
from tidegate.events.fields import compared, has_hidden
from tidegate.events.topics import EVENT_TYPES

EXAMPLES: Final = {name: example_of(name) for name in EVENT_TYPES}
_TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
_NAMES: Final = st.text(
    st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=80
).filter(lambda name: bool(compared(name)) and not has_hidden(name))
_IDS: Final = st.one_of(
    st.integers(0, 2**62 - 1), st.sampled_from([0, 63, 64, 8191, 8192, 2**61, 2**62 - 1])
)
_SUBJECTS: Final = st.fixed_dictionaries(
    {
        "table": st.sampled_from(["hive.db.t", "lake.a.b", "x.y.ü"]),
        "location": st.sampled_from(["/w/t", "s3a://bucket/ü", "hdfs://n:8020/" + "x" * 200]),
        "occurred_at": st.datetimes(datetime(1960, 1, 1), datetime(9000, 1, 1)).map(  # noqa: DTZ001 - made aware
            lambda it: it.replace(tzinfo=UTC, fold=0)
        ),
        "source": _NAMES,
        "caused_by": st.none() | _TEXTS,
        "partition": st.none() | _TEXTS,
    }
)
_HOLDS: Final = st.builds(
    LockHold,
    lock_id=_IDS,
    transaction_id=st.none() | _IDS,
    partition=st.none() | _TEXTS,
    lock_type=st.none() | st.sampled_from(LockType),
    owner=st.none() | _TEXTS,
)
_DIRECTORIES: Final = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda it: not set(it) & set("/\\\x7f")
)


@st.composite
def vacuums(draw: st.DrawFn) -> VacuumFinished:
    holds = draw(st.lists(_HOLDS, min_size=1, max_size=70))
    first, last = sorted((draw(_IDS), draw(_IDS)))
    return VacuumFinished.model_validate(
        {
            **draw(_SUBJECTS),
            "kind": draw(st.sampled_from(VacuumKind)),
            "directories": tuple(draw(st.lists(_DIRECTORIES, min_size=1, max_size=3))),
            "min_write_id": first,
            "max_write_id": last,
            "valid_write_ids": draw(_TEXTS) * draw(st.sampled_from([1, 1, 500])),
            "own_lock_id": draw(st.sampled_from(holds)).lock_id,
            "own_transaction_id": draw(st.none() | _IDS),
            "locks": tuple(holds),
            "open_transactions": tuple(draw(st.lists(_IDS, max_size=70))),
            "metastore": draw(st.none() | _TEXTS),
        }
    )


@st.composite
def releases(draw: st.DrawFn) -> LockReleased:
    lock_id = draw(st.none() | _IDS)
    return LockReleased.model_validate(
        {
            **draw(_SUBJECTS),
            "lock_id": lock_id,
            "transaction_id": draw(_IDS if lock_id is None else st.none() | _IDS),
            "lock_type": draw(st.none() | st.sampled_from(LockType)),
            "reason": draw(st.sampled_from(ReleaseReason)),
            "reconciled": draw(st.booleans()),
            "metastore": draw(st.none() | _TEXTS),
        }
    )


def assert_same(one: Event, other: Event) -> None:
    """Equal in values, types, representation and hash."""
    assert type(one) is type(other)
    assert one == other
    assert repr(one) == repr(other)
    assert hash(one) == hash(other)
    assert one.model_fields_set == other.model_fields_set
    assert one.model_dump_json() == other.model_dump_json()
    assert [type(var) for var in vars(one).values()] == [type(var) for var in vars(other).values()]


def raw(kind: type[Event], **changes: object) -> bytes:
    """A kind's example with other values, which its model may refuse."""
    record = decode(EXAMPLES[kind.__name__]).model_dump()
    out = BytesIO()
    fastavro.schemaless_writer(out, schema_of(kind).parsed, record | changes)
    return single_object_prefix(kind) + out.getvalue()


@given(event=vacuums() | releases())
def test_a_fact_that_was_written_is_read_again(event: Event) -> None:
    assert_same(decode(encode(event)), event)


@pytest.mark.parametrize("name", EVENT_TYPES)
@given(data=st.data())
@settings(max_examples=examples(100))
def test_a_damaged_event_is_refused_or_is_written_as_it_was_understood(
    name: str, data: st.DataObject
) -> None:
    prefix = single_object_prefix(EVENT_TYPES[name])
    body = data.draw(damaged([EXAMPLES[name].removeprefix(prefix)]))
    try:
        event = decode(prefix + body)
    except FormatError:
        return
    assert decode(encode(event)) == event


@pytest.mark.parametrize("kind", [VacuumFinished, LockReleased])
def test_an_event_that_was_cut_off_or_goes_on_is_refused(kind: type[Event]) -> None:
    value = EXAMPLES[kind.__name__]

    for cut in range(len(value)):
        with pytest.raises(FormatError):
            decode(value[:cut])
    with pytest.raises(FormatError, match="1 trailing bytes"):
        decode(value + b"\x00")


LIMITS: Final[dict[str, tuple[type[Event], dict[str, object]]]] = {
    "another id": (LockReleased, {"event_id": "1f551e10-becc-51c5-a3c2-9faca8cb2718"}),
    "a table of two parts": (LockReleased, {"table": "a.b"}),
    "a relative location": (LockReleased, {"location": "w/t"}),
    "a location of 4,001 characters": (LockReleased, {"location": "/" * 4_001}),
    "an empty source": (LockReleased, {"source": ""}),
    "a name of 1,001 characters": (LockReleased, {"source": "x" * 1_001}),
    "an empty cause": (LockReleased, {"caused_by": ""}),
    "a negative lock": (LockReleased, {"lock_id": -1}),
    "neither lock nor transaction": (LockReleased, {"lock_id": None, "transaction_id": None}),
    "a partition of 1,001 characters": (VacuumFinished, {"partition": "x" * 1_001}),
    "no directories": (VacuumFinished, {"directories": []}),
    "1,001 directories": (VacuumFinished, {"directories": ["d"] * 1_001}),
    "a path": (VacuumFinished, {"directories": ["a/b"]}),
    "a directory of two lines": (VacuumFinished, {"directories": ["a\n"]}),
    "a directory of 256 characters": (VacuumFinished, {"directories": ["x" * 256]}),
    "a range that ends before it begins": (VacuumFinished, {"min_write_id": 2**40}),
    "a negative write id": (VacuumFinished, {"min_write_id": -1}),
    "no snapshot": (VacuumFinished, {"valid_write_ids": ""}),
    "a snapshot of 250,001 characters": (VacuumFinished, {"valid_write_ids": "1" * 250_001}),
    "no locks": (VacuumFinished, {"locks": []}),
    "not its own lock": (VacuumFinished, {"own_lock_id": 2**40}),
    "100,001 transactions": (VacuumFinished, {"open_transactions": [1] * 100_001}),
    "a negative transaction": (VacuumFinished, {"open_transactions": [-1]}),
}


@pytest.mark.parametrize("name", LIMITS)
def test_an_event_beyond_a_limit_is_refused_under_its_own_id_too(name: str) -> None:
    kind, changes = LIMITS[name]
    value = raw(kind, **changes)
    if "event_id" not in changes:
        value = raw(kind, **changes, event_id=kind.content_id(unchecked(kind, value)))

    with pytest.raises(FormatError, match=f"invalid {kind.__name__}"):
        decode(value)


def unchecked(kind: type[Event], value: bytes) -> Any:  # noqa: ANN401 - not a valid event
    """The event of a value that its model may refuse, to ask it for its id."""
    body = BytesIO(value.removeprefix(single_object_prefix(kind)))
    record = fastavro.schemaless_reader(body, schema_of(kind).parsed, None)
    assert isinstance(record, dict)
    if kind is VacuumFinished:
        record["locks"] = [LockHold.model_construct(**lock) for lock in record["locks"]]
    return kind.model_construct(**record)


def test_a_list_in_blocks_with_their_sizes_is_read() -> None:
    value = raw(VacuumFinished, open_transactions=[7], metastore=None, event_id="")
    in_blocks = (
        value.removesuffix(b"\x02\x0e\x00\x00") + avro_long(-1) + avro_long(1) + b"\x0e\x00\x00"
    )

    assert len(in_blocks) > len(value)
    assert_same(decode(in_blocks), decode(value))


def test_a_number_of_more_than_64_bits_is_not_written() -> None:
    event = decode(EXAMPLES["LockReleased"]).model_copy(update={"lock_id": 2**63})

    with pytest.raises(ValueError, match="lock_id"):
        encode_body(event)
