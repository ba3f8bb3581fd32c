"""Files of a table that were written to harm who reads them: refused, in little time and memory."""

from __future__ import annotations

import io
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    savepoint_request,
    ticking,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import FormatError
from tidegate.events import SavepointCreated, SavepointRejected
from tidegate.hudi import containers
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.savepoints.executor import SavepointWriter

SYNC = b"0123456789abcdef"
NULLS = {"type": "array", "items": "null"}


def long(value: int) -> bytes:
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def container(schema: object, data: bytes, codec: str = "null") -> bytes:
    """A container of one block, without asking whether it makes sense."""
    text = (schema if isinstance(schema, str) else json.dumps(schema)).encode()
    header = b"".join(
        long(len(part)) + part for part in (b"avro.schema", text, b"avro.codec", codec.encode())
    )
    start = b"Obj\x01" + long(2) + header + long(0) + SYNC
    return start + long(1) + long(len(data)) + data + SYNC


def record(*fields: object, name: str = "HoodieCommitMetadata") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(fields)],
    }


def doubling(depth: int) -> dict[str, Any]:
    inner: Any = record(*["null"] * 8, name="r0")
    for level in range(1, depth):
        inner = record(inner, f"r{level - 1}", name=f"r{level}")
    return record(inner)


def deflated(data: bytes) -> bytes:
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeezer.compress(data) + squeezer.flush()


def squeezed_by(codec: str) -> bytes:
    buffer, schema = io.BytesIO(), record("bytes")
    fastavro.writer(buffer, schema, [{"f0": bytes(10**6)}], codec=codec)
    return buffer.getvalue()


HOSTILE = {
    "a record in itself": container(record(["null", "HoodieCommitMetadata"]), b"\x02" * 20_000),
    "a billion nothings": container(record(NULLS), long(2**33) + b"\x00"),
    "a billion empty records": container(
        record({"type": "array", "items": record(name="empty")}), long(2**33) + b"\x00"
    ),
    "a billion fixed of no bytes": container(
        record({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}),
        long(2**33) + b"\x00",
    ),
    "doubling records": container(doubling(28), b""),
    "many values for each byte": container(
        record({"type": "array", "items": record("int", *["null"] * 5000, name="wide")}),
        long(10**6) + bytes(10**6),
    ),
    "a type that is an object": container({"type": NULLS, "logicalType": "decimal"}, b""),
    "a deep schema": container(json.dumps(["null"] * 2)[:-1] + ",[" * 5000, b""),
    "a schema nested 100 times": container("[" * 100 + '"null"' + "]" * 100, b""),
    "a long schema": container(record(*["null"] * 50_000), b""),
    "a bomb of bzip2": squeezed_by("bzip2"),
    "an inflated bomb": container(record("bytes"), deflated(bytes(2**28)), "deflate"),
    "a length that is not there": container(record("bytes"), long(2**40)),
    "a negative length": container(record("bytes"), long(-5)),
    "an endless number": b"Obj\x01" + b"\xff" * 1000,
    "no record": b"Obj\x01" + long(0) + SYNC,
    "deep JSON": b"[" * 1_000_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_commit_is_refused_in_little_memory(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            CommitMetadata.decode(content)
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize(
    "name",
    [
        "HoodieCommitMetadata",
        "HoodieReplaceCommitMetadata",
        "HoodieRestoreMetadata",
        "HoodieRestorePlan",
        "HoodieRollbackMetadata",
        "HoodieRollbackPlan",
        "HoodieSavepointMetadata",
    ],
)
def test_every_schema_of_hudi_s_own_is_read(name: str, codec: str) -> None:
    buffer, schema = io.BytesIO(), containers.schema(name)
    value = next(generate_many(schema, 1))
    fastavro.writer(buffer, schema, [value], codec=codec)

    assert containers.decode(buffer.getvalue()) == value


def savepoint(table: HandMade) -> SavepointCreated | SavepointRejected:
    writer = SavepointWriter(warehouse_over(table.path.parent), ThreadMap(), ticking())
    (outcome,) = writer.execute(savepoint_request(table, at(2)))
    assert isinstance(outcome, SavepointCreated | SavepointRejected)
    return outcome


@pytest.mark.parametrize("size", [2 * 1024 * 1024, 200 * 1024**3])
def test_properties_full_of_holes_are_refused(tmp_path: Path, size: int) -> None:
    table = four_commits(tmp_path / "orders", 9)
    with (table.path / ".hoodie/hoodie.properties").open("ab") as file:
        file.truncate(size)

    outcome = savepoint(table)

    assert isinstance(outcome, SavepointRejected)
    assert outcome.reason == "unreadable-table"


@pytest.mark.parametrize("state", [InstantState.INFLIGHT, InstantState.REQUESTED])
def test_a_pending_clean_without_its_plan_is_refused_not_retried_for_ever(
    tmp_path: Path, state: InstantState
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.put(Instant(at(6), Action.CLEAN, state))

    outcome = savepoint(table)

    assert isinstance(outcome, SavepointRejected)
    assert outcome.reason == "unreadable-table"
