"""Inputs for fuzzing: real ones that were damaged, and ones that only look plausible."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

Json = Any
SYNC = b"0123456789abcdef"
_EDITS = st.lists(
    st.tuples(
        st.sampled_from(["set", "drop", "insert", "repeat", "swap"]),
        st.integers(0, 2**16),
        st.binary(max_size=12),
        st.integers(0, 40),
    ),
    max_size=6,
)
_NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308])


def damaged(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """A seed with a few edits, or any bytes."""
    edited = st.builds(_edited, st.sampled_from(list(seeds)), _EDITS)
    return st.one_of(edited, edited, edited, st.binary(max_size=300))


def damaged_text(seeds: Sequence[str]) -> st.SearchStrategy[str]:
    """A text with a few edits, or any text."""
    edited = damaged([seed.encode() for seed in seeds]).map(
        lambda it: it.decode("utf-8", "replace")
    )
    return st.one_of(edited, edited, st.text(max_size=200))


def _edited(content: bytes, edits: list[tuple[str, int, bytes, int]]) -> bytes:
    for what, place, more, length in edits:
        at = place % (len(content) + 1)
        before, cut, after = content[:at], content[at : at + length], content[at + length :]
        match what:
            case "set":
                content = before + more + content[at + len(more) :]
            case "drop":
                content = before + after
            case "insert":
                content = before + more + cut + after
            case "repeat":
                content = (before + cut * 50 + after)[:100_000]
            case _:
                content = after + before + cut
    return content


_DEEP: Final = {f"deep {depth}": depth for depth in (100, 990, 5_000, 200_000)}
"""Stands for JSON that is nested so deep; no encoder would write it."""


def any_json() -> st.SearchStrategy[Json]:
    """Any JSON, with numbers that fit nowhere and nesting that is not expected."""
    deep = st.sampled_from(list(_DEEP))
    leaf = st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(max_size=20), deep)
    keys = st.text(max_size=8)
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


@st.composite
def damaged_json(draw: st.DrawFn, seeds: Sequence[Json]) -> Json:
    """A document in which one value, anywhere, is another one, is missing, or has a sibling."""
    document = json.loads(json.dumps(draw(st.sampled_from(list(seeds)))))
    for _ in range(draw(st.integers(1, 3))):
        parent, key = document, None
        while isinstance(parent, dict | list) and parent:
            keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            key = draw(st.sampled_from(keys))
            child = parent[key]
            if not isinstance(child, dict | list) or not child or draw(st.booleans()):
                break
            parent = child
        if key is None:
            return draw(any_json())
        match draw(st.sampled_from(["set", "set", "drop", "add"])):
            case "set":
                parent[key] = draw(any_json())
            case "drop":
                del parent[key]
            case _ if isinstance(parent, dict):
                parent[draw(st.text(max_size=8))] = draw(any_json())
            case _:
                parent.extend([parent[key]] * draw(st.integers(1, 50)))
    return document


def json_bytes(value: Json) -> bytes:
    """JSON as others may write it: nested deep, and with lone surrogates."""
    return json_text(value).encode()


def json_text(value: Json) -> str:
    """The same as text."""
    text = json.dumps(value)
    for name, depth in _DEEP.items():
        text = text.replace(json.dumps(name), "[" * depth + "]" * depth, 1)
    return text


_PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
_NAMES = st.sampled_from(["r0", "r1", "r2", "HoodieCommitMetadata", "a.b", "", "null", "x" * 300])


def avro_schemas() -> st.SearchStrategy[Json]:
    """Schemas, most of them nearly valid: recursive ones, empty ones, ones that expand."""
    named = st.one_of(st.sampled_from(_PRIMITIVES), _NAMES)

    def more(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
        fields = st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("fgh"), "type": inner}), max_size=5
        )
        return st.one_of(
            st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
            st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
            st.fixed_dictionaries({"type": st.just("record"), "name": _NAMES, "fields": fields}),
            st.fixed_dictionaries({"type": st.just("fixed"), "name": _NAMES, "size": _NUMBERS}),
            st.fixed_dictionaries(
                {"type": st.just("enum"), "name": _NAMES, "symbols": st.lists(named, max_size=3)}
            ),
            st.fixed_dictionaries(
                {"type": inner, "logicalType": st.sampled_from(["decimal", "uuid", "date", "x"])}
            ),
            st.lists(inner, max_size=4),
        )

    return st.recursive(named, more, max_leaves=10)


def avro_long(value: int) -> bytes:
    """A number as Avro writes it."""
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def avro_data() -> st.SearchStrategy[bytes]:
    """Bytes that say plausible and implausible counts."""
    counts = st.sampled_from([0, 1, -1, 3, 100, 10**6, 2**31, 2**40, -(2**40)]).map(avro_long)
    return st.lists(st.one_of(counts, st.binary(max_size=8)), max_size=12).map(b"".join)


@st.composite
def containers(draw: st.DrawFn, schemas: Sequence[Json]) -> bytes:
    """An Avro container of any schema, any codec, any data."""
    schema = draw(st.one_of(avro_schemas(), damaged_json(schemas)))
    data = draw(avro_data())
    codec = draw(st.sampled_from([b"null", b"null", b"deflate", b"bzip2", b"snappy", b"zstandard"]))
    if codec == b"deflate":
        data = zlib.compress(data * draw(st.sampled_from([1, 10, 10_000])))[2:-4]
    text = json_bytes(schema)
    header = b"".join(
        avro_long(len(part)) + part for part in (b"avro.schema", text, b"avro.codec", codec)
    )
    return (
        b"Obj\x01"
        + avro_long(2)
        + header
        + avro_long(0)
        + SYNC
        + avro_long(draw(st.sampled_from([1, 0, -1, 2**40])))
        + avro_long(len(data))
        + data
        + SYNC
    )
