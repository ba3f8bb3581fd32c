"""A schema that a registry supplies can neither crash a reader nor keep it busy."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.samples import commit
from tidegate.avro import read_schema
from tidegate.errors import FormatError
from tidegate.events.codec import (
    FOREIGN_SCHEMAS,
    decode_body,
    previous_texts,
    schema_text,
    writer_from,
)
from tidegate.events.topics import EVENT_TYPES

Json = dict[str, Any]
READ = """
import sys
from tidegate.errors import FormatError
from tidegate.events.codec import decode_body, writer_from
try:
    decode_body(bytes.fromhex(sys.argv[2]), 0, writer_from(sys.argv[1]))
except FormatError as error:
    print(error)
"""


def read_elsewhere(schema: str, body: bytes) -> str:
    """Read a message in a process of its own, which a fault of native code would end."""
    command = [sys.executable, "-c", READ, schema, body.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def foreign(*fields: Any) -> str:  # noqa: ANN401 - any Avro type
    """A commit's schema of another writer, with more fields in front."""
    schema: Json = json.loads(schema_text("CommitCompleted"))
    more = [{"name": f"x{n}", "type": field} for n, field in enumerate(fields)]
    return json.dumps(schema | {"fields": [*more, *schema["fields"]]})


def chain(length: int) -> list[Any]:
    """Records of ten of the record before: 10 ** length values that too few bytes."""
    first: Json = {"type": "record", "name": "r0", "fields": []}
    return [
        first,
        *(
            {
                "type": "record",
                "name": f"r{n}",
                "fields": [{"name": f"f{i}", "type": f"r{n - 1}"} for i in range(10)],
            }
            for n in range(1, length)
        ),
    ]


LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
WIDE: Json = {
    "type": "record",
    "name": "Wide",
    "fields": [
        {"name": "n", "type": "int"},
        *({"name": f"f{n}", "type": "null"} for n in range(1_000)),
    ],
}
NESTED: Any = "long"
for _ in range(100):
    NESTED = {"type": "array", "items": NESTED}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(foreign(LIST), "Node is recursive", id="a recursive record"),
        pytest.param(
            foreign({"type": "array", "items": "null"}), "too few bytes", id="an array of nulls"
        ),
        pytest.param(
            foreign({"type": "array", "items": chain(1)[0]}),
            "too few bytes",
            id="an array of empty records",
        ),
        pytest.param(
            foreign({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}),
            "too few bytes",
            id="an array of empty fixed",
        ),
        pytest.param(
            foreign({"type": "array", "items": WIDE}), "too few bytes", id="many values in a byte"
        ),
        pytest.param(foreign(*chain(12)), "more than 2000 types", id="types that multiply"),
        pytest.param(foreign(NESTED), "deeper than", id="nested types"),
        pytest.param(
            foreign({"type": "fixed", "name": "f", "size": 2**40}), "a fixed of", id="a huge fixed"
        ),
        pytest.param(
            foreign({"type": "bytes", "logicalType": "decimal", "precision": 10**9}),
            "the logical type decimal",
            id="a decimal of a million digits",
        ),
        pytest.param(" " * (FOREIGN_SCHEMAS.length + 1), "the limit is", id="a long schema"),
        pytest.param("[" * 100_000, "not an Avro schema", id="deep JSON"),
        pytest.param(
            '{"type": "record", "name": "r", "fields": 3}', "list of fields", id="no fields"
        ),
    ],
)
def test_a_schema_beyond_the_limits_is_a_format_error(text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        writer_from(text)


def test_a_message_of_60_kb_with_a_recursive_schema_ends_no_process() -> None:
    assert "recursive" in read_elsewhere(foreign(LIST), b"\x02" * 60_000)


def test_84_bytes_with_an_array_of_nulls_are_refused_at_once() -> None:
    body = b"\xfe" * 8 + b"\x7f" + bytes(75)  # a count of 2 ** 61 items
    schema = foreign({"type": "array", "items": "null"})

    assert "too few bytes" in read_elsewhere(schema, body)


@pytest.mark.parametrize(
    "text", [*map(schema_text, EVENT_TYPES), *(text for _, text in previous_texts())]
)
def test_tidegates_own_schemas_are_within_the_limits(text: str) -> None:
    assert read_schema(text, FOREIGN_SCHEMAS) == json.loads(text)


def test_a_field_that_a_newer_version_has_is_skipped() -> None:
    file: Json = {
        "type": "record",
        "name": "File",
        "fields": [
            {"name": "path", "type": "string"},
            {"name": "tags", "type": {"type": "map", "values": "null"}},
        ],
    }
    writer = writer_from(foreign({"type": "array", "items": file}, "File"))
    out, example = BytesIO(), {"path": "p", "tags": {"a": None}}
    record = {"x0": [example], "x1": example, **commit(1).model_dump()}
    fastavro.schemaless_writer(out, writer.parsed, record)

    assert decode_body(out.getvalue(), 0, writer).table == "lake.sales.orders"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(
        ["record", "array", "map", "enum", "fixed", "string", "io.tidegate.events.CommitCompleted"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "name",
                    "fields",
                    "items",
                    "values",
                    "size",
                    "namespace",
                    "symbols",
                    "logicalType",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_any_json_is_a_schema_or_a_format_error(value: Any) -> None:  # noqa: ANN401 - any JSON
    try:
        writer_from(json.dumps(value))
    except FormatError:
        return
