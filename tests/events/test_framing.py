"""Where the schema of a message is named, and invalid names."""

from __future__ import annotations

from uuid import UUID

import pytest

from support.samples import commit
from tidegate.errors import FormatError
from tidegate.events.codec import VALUE_HEADER, encode, encode_body, frame_of, id_prefix
from tidegate.events.wire import Wire

GUID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
KEY = b"lake.sales.orders"


def test_a_single_object_names_a_fingerprint() -> None:
    assert frame_of(b"\xc3\x01" + bytes(range(8)) + b"body") == (bytes(range(8)), 10)


def test_a_value_that_begins_with_0_names_a_registrys_id() -> None:
    assert id_prefix(258) == b"\x00\x00\x00\x01\x02"
    assert frame_of(id_prefix(258) + b"body") == (258, 5)


def test_a_header_names_a_registrys_guid_and_the_value_is_the_body() -> None:
    headers = ((VALUE_HEADER, b"\x01" + GUID.bytes),)

    assert frame_of(b"body", headers) == (GUID, 0)


def test_a_header_wins_over_what_the_body_looks_like() -> None:
    headers = ((VALUE_HEADER, b"\x00" + bytes([0, 0, 0, 7])),)

    assert frame_of(id_prefix(258), headers) == (7, 0)


def test_the_keys_header_says_nothing_of_the_value() -> None:
    headers = (("__key_schema_id", b"\x01" + GUID.bytes),)

    assert frame_of(id_prefix(258), headers) == (258, 5)


@pytest.mark.parametrize(
    ("value", "header"),
    [
        pytest.param(b"\x00\x00\x00\x01", None, id="an id cut short"),
        pytest.param(b"body", b"", id="an empty header"),
        pytest.param(b"body", b"\x01" + bytes(15), id="a GUID cut short"),
        pytest.param(b"body", b"\x01" + bytes(17), id="a GUID too long"),
        pytest.param(b"body", b"\x02" + bytes(16), id="a magic byte of the future"),
    ],
)
def test_a_broken_name_is_a_format_error(value: bytes, header: bytes | None) -> None:
    headers = () if header is None else ((VALUE_HEADER, header),)

    with pytest.raises(FormatError, match="identifies no schema"):
        frame_of(value, headers)


def test_without_a_registry_events_are_single_objects() -> None:
    serialized = Wire().serialize(commit(1), "tidegate.commits")

    assert serialized.value == encode(commit(1))
    assert Wire().deserialize(serialized.key, serialized.value, serialized.headers) == commit(1)


def test_a_message_under_another_tables_key_is_refused_whatever_its_format() -> None:
    serialized = Wire().serialize(commit(1), "tidegate.commits")

    with pytest.raises(FormatError, match="is not the event's table"):
        Wire().deserialize(b"lake.sales.returns", serialized.value, serialized.headers)


def test_without_a_registry_its_ids_are_refused_with_the_reason() -> None:
    value = id_prefix(7) + encode_body(commit(1))

    assert Wire().kind(value) is None
    with pytest.raises(
        FormatError, match="schema id 7 needs a schema registry, and none is config"
    ):
        Wire().deserialize(KEY, value)
