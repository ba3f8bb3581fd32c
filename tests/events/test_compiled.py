"""The compiled readers and writers, judged by the general way: fastavro and pydantic."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.budget import examples
from support.fuzz_inputs import avro_long, damaged
from tidegate.errors import FormatError
from tidegate.events import (
    CleaningReleased,
    Event,
    LockHold,
    LockReleased,
    LockType,
    ReleaseReason,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.assembled import assemble
from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.codec import (
    compiled_reader,
    decode,
    decode_body,
    decode_generally,
    encode_body,
    encode_generally,
)
from tidegate.events.schema import current_writers, schema_of, schema_text, writer_from

HOT: Final[tuple[type[Event], ...]] = (VacuumFinished, LockReleased)
WRITERS: Final = {writer.reader.model: writer for writer in current_writers().values()}
_EXAMPLES: Final = {  # some were written by an earlier version: these are their bodies today
    name: encode_generally(
        decode(files("tidegate.events").joinpath(f"examples/{name}.bin").read_bytes())
    )
    for name in EVENT_TYPES
}
_TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
_IDS: Final = st.one_of(
    st.integers(0, 2**63 - 1), st.sampled_from([0, 63, 64, 8191, 8192, 2**62, 2**63 - 1])
)
_SUBJECTS: Final = st.fixed_dictionaries(
    {
        "table": st.sampled_from(["hive.db.t", "lake.a.b", "x.y.ü"]),
        "location": st.sampled_from(["/w/t", "s3a://bucket/ü", "hdfs://n:8020/" + "x" * 200]),
        "occurred_at": st.datetimes(datetime(1960, 1, 1), datetime(9000, 1, 1)).map(  # noqa: DTZ001 - made aware
            lambda it: it.replace(tzinfo=UTC)
        ),
        "source": _TEXTS,
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
        }
    )


def at_once(kind: type[Event], body: bytes) -> Event | None:
    """What the compiled reader of a kind makes of a body."""
    read = compiled_reader(kind)
    assert read is not None
    return read(b"0123456789" + body, 10)


def generally(kind: type[Event], body: bytes) -> Event:
    return decode_generally(body, 0, WRITERS[kind])


def assert_same(one: Event, other: Event) -> None:
    """Equal, and in nothing to be told apart: neither in types nor in what pydantic keeps."""
    assert type(one) is type(other)
    assert one == other
    assert repr(one) == repr(other)
    assert hash(one) == hash(other)
    assert one.model_fields_set == other.model_fields_set
    assert one.model_dump_json() == other.model_dump_json()
    assert one.model_copy() == other
    assert [type(var) for var in vars(one).values()] == [type(var) for var in vars(other).values()]


def raw(kind: type[Event], **changes: object) -> bytes:
    """The body of a kind's example with other values, which its model may refuse."""
    schema = schema_of(kind).parsed
    record = fastavro.schemaless_reader(BytesIO(_EXAMPLES[kind.__name__]), schema, None)
    assert isinstance(record, dict)
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, record | changes)
    return out.getvalue()


@given(event=vacuums() | releases())
def test_a_fact_is_read_as_it_is_read_generally(event: Event) -> None:
    body, kind = encode_generally(event), type(event)

    # a number of ten bytes and a time before 1970 are left to the general way
    assert_same(decode_body(body, 0, WRITERS[kind]), generally(kind, body))


@pytest.mark.parametrize("kind", HOT)
@given(data=st.data())
@settings(max_examples=examples(100))
def test_of_damaged_bodies_it_accepts_none_that_is_refused_generally(
    kind: type[Event], data: st.DataObject
) -> None:
    body = data.draw(damaged([_EXAMPLES[kind.__name__]]))

    found = at_once(kind, body)

    if found is not None:
        assert_same(found, generally(kind, body))


@pytest.mark.parametrize("kind", HOT)
def test_of_bodies_with_one_other_byte_it_accepts_none_that_is_refused_generally(
    kind: type[Event],
) -> None:
    body = _EXAMPLES[kind.__name__]
    for at in range(len(body)):
        for byte in {0, 1, 2, 3, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 0x40}:
            changed = body[:at] + bytes([byte]) + body[at + 1 :]
            if (found := at_once(kind, changed)) is not None:
                assert_same(found, generally(kind, changed))


@pytest.mark.parametrize("kind", HOT)
def test_the_services_facts_are_read_at_once(kind: type[Event]) -> None:
    body = _EXAMPLES[kind.__name__]

    found = at_once(kind, body)

    assert found is not None
    assert_same(found, generally(kind, body))
    for cut in range(len(body)):
        assert at_once(kind, body[:cut]) is None
    assert at_once(kind, body + b"\x00") is None


LIMITS: Final[dict[str, tuple[type[Event], dict[str, object]]]] = {
    "another id": (LockReleased, {"event_id": "1f551e10-becc-51c5-a3c2-9faca8cb2718"}),
    "no id": (LockReleased, {"event_id": ""}),
    "a table of two parts": (LockReleased, {"table": "a.b"}),
    "a relative location": (LockReleased, {"location": "w/t"}),
    "a location of 4,001 characters": (LockReleased, {"location": "/" * 4_001}),
    "nobody": (LockReleased, {"source": ""}),
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
def test_what_is_beyond_a_limit_is_not_read_at_once(name: str) -> None:
    kind, changes = LIMITS[name]
    body = raw(kind, **changes)
    if "event_id" not in changes:  # else the id would do, which is not of the changed content
        record = decodable(kind, body)
        body = raw(kind, **changes, event_id=kind.content_id(record))

    assert at_once(kind, body) is None
    if name != "no id":
        with pytest.raises(FormatError):
            decode_body(body, 0, WRITERS[kind])


def decodable(kind: type[Event], body: bytes) -> Any:  # noqa: ANN401 - not a valid event
    """Of an invalid event one that was not checked, to ask it for its id."""
    record = fastavro.schemaless_reader(BytesIO(body), schema_of(kind).parsed, None)
    assert isinstance(record, dict)
    if kind is VacuumFinished:
        record["locks"] = [LockHold.model_construct(**each) for each in record["locks"]]
    return kind.model_construct(**record)


def test_a_list_in_blocks_with_their_sizes_is_read_generally() -> None:
    body = raw(VacuumFinished, open_transactions=[7])
    content = VacuumFinished.content_id(decodable(VacuumFinished, body))
    body = raw(VacuumFinished, open_transactions=[7], event_id=content)
    in_blocks = body.removesuffix(b"\x02\x0e\x00") + avro_long(-1) + avro_long(1) + b"\x0e\x00"

    assert at_once(VacuumFinished, in_blocks) is None
    event = decode_body(in_blocks, 0, WRITERS[VacuumFinished])
    assert_same(event, generally(VacuumFinished, body))


def test_an_own_schema_from_a_registry_has_the_compiled_reader() -> None:
    assert writer_from(schema_text("LockReleased")).read is compiled_reader(LockReleased)


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_example_is_written_as_it_is_written_generally(name: str) -> None:
    kind = EVENT_TYPES[name]
    event = generally(kind, _EXAMPLES[name])

    assert encode_body(event) == encode_generally(event) == _EXAMPLES[name]


@given(event=vacuums() | releases())
def test_a_fact_is_written_as_it_is_written_generally(event: Event) -> None:
    assert encode_body(event) == encode_generally(event)


@pytest.mark.parametrize("name", EVENT_TYPES)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_what_a_damaged_example_still_means_is_written_alike(
    name: str, data: st.DataObject
) -> None:
    kind = EVENT_TYPES[name]
    try:
        event = generally(kind, data.draw(damaged([_EXAMPLES[name]])))
    except FormatError:
        return
    assert encode_body(event) == encode_generally(event)


def test_a_number_of_more_than_64_bits_is_not_written() -> None:
    event = LockReleased.model_construct(**vars(generally(LockReleased, _EXAMPLES["LockReleased"])))
    vars(event)["lock_id"] = 2**63

    with pytest.raises(OverflowError):
        encode_body(event)


@given(event=vacuums() | releases())
def test_an_event_made_of_checked_values_is_as_pydantic_makes_it(event: Event) -> None:
    assert_same(assemble(type(event), {**vars(event), "event_id": ""}), event)


def test_a_rule_over_several_values_is_applied_to_checked_ones_too() -> None:
    example = generally(CleaningReleased, _EXAMPLES["CleaningReleased"])

    with pytest.raises(ValueError, match="caused_by"):
        assemble(CleaningReleased, {**vars(example), "caused_by": None})
