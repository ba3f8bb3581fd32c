"""The files that a commit wrote are read as fastavro and json read them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FormatError
from tidegate.hudi import containers
from tidegate.hudi.commit import CommitMetadata, WriteStat

STATS = "partitionToWriteStats"

KINDS = ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata")
RARE = {
    "logFiles": st.lists(st.text(max_size=3), max_size=3),
    "cdcStats": st.dictionaries(st.text(max_size=3), st.integers(-9, 2**40), max_size=2),
    "runtimeStats": st.fixed_dictionaries({"totalScanTime": st.integers(0, 2**40)}),
}
TEXTS = ("fileId", "path", "prevCommit", "partitionPath", "baseFile", "prevBaseFile", "tempPath")
STAT = st.fixed_dictionaries(
    {},
    optional={name: st.none() | st.text(max_size=90) for name in TEXTS}
    | {
        name: st.none() | st.integers(-(2**63), 2**63 - 1)
        for name in ("numWrites", "fileSizeInBytes", "totalWriteBytes", "minEventTime")
    }
    | {name: st.none() | values for name, values in RARE.items()},
)
RECORD = st.fixed_dictionaries(
    {STATS: st.none() | st.dictionaries(st.text(max_size=70), st.lists(STAT, max_size=3))},
    optional={"extraMetadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3))},
)


def written(record: dict[str, Any]) -> list[WriteStat]:
    return [
        WriteStat(
            partition,
            stat["fileId"] or "",
            stat["path"],
            None if stat.get("prevCommit") in {None, "", "null"} else stat["prevCommit"],
            stat.get("fileSizeInBytes") or 0,
            stat.get("numWrites") or 0,
        )
        for partition, stats in (record[STATS] or {}).items()
        for stat in stats
        if stat.get("path")
    ]


def read(content: bytes) -> list[WriteStat]:
    return list(CommitMetadata.decode(content).writes)


@given(RECORD, st.sampled_from(KINDS))
def test_the_files_of_a_commit_are_those_that_fastavro_reads(
    record: dict[str, Any], kind: str
) -> None:
    content = containers.encode(kind, record)

    assert read(content) == written(containers.decode(content))
    assert CommitMetadata.decode(content).extra == (record.get("extraMetadata") or {})


@given(RECORD, st.sampled_from([None, 2]), st.sampled_from(["utf-8", "utf-16"]))
def test_the_files_of_a_json_commit_are_those_that_the_json_module_reads(
    record: dict[str, Any], indent: int | None, encoding: str
) -> None:
    for stats in (record[STATS] or {}).values():
        for stat in stats:
            stat.setdefault("fileId", "g")
            stat.setdefault("path", None)
    content = json.dumps(record, indent=indent, ensure_ascii=False).encode(
        encoding, "surrogatepass"
    )

    assert read(content) == written(json.loads(content))
    assert CommitMetadata.decode(content).extra == (record.get("extraMetadata") or {})


@given(RECORD, st.data())
def test_a_damaged_commit_is_read_or_refused(record: dict[str, Any], data: st.DataObject) -> None:
    content = bytearray(containers.encode(KINDS[0], record))
    at = len(content) - 16 - data.draw(st.integers(1, len(content) - 16))
    content[at] = data.draw(st.integers(0, 255))
    try:
        found = CommitMetadata.decode(bytes(content))
    except FormatError:
        return
    assert all(isinstance(stat, WriteStat) for stat in found.writes)


Fields = list[dict[str, Any]]


def other_union(fields: Fields) -> None:
    fields[3]["type"] = ["long", "null"]


def other_type(fields: Fields) -> None:
    fields[4]["type"] = ["null", "bytes"]


@pytest.mark.parametrize("change", [Fields.reverse, Fields.pop, other_union, other_type])
def test_a_commit_of_another_writers_schema_is_read(change: Callable[[Fields], object]) -> None:
    schema = json.loads(json.dumps(containers.schema(KINDS[0])))
    change(schema["fields"][0]["type"][1]["values"]["items"]["fields"])
    stat = {"fileId": "g", "path": "p/g", "numWrites": 7, "fileSizeInBytes": 9}
    content = io.BytesIO()
    fastavro.writer(content, schema, [{STATS: {"p": [stat]}}])

    assert read(content.getvalue()) == [WriteStat("p", "g", "p/g", None, 9, 7)]
