"""A commit's files are read in one pass, and what comes out is what fastavro gives."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FormatError
from tidegate.hudi import CommitMetadata, containers
from tidegate.hudi.write_stats import FIELDS, STATS, StatsReader, WriteStat, write_stat

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


def as_fastavro_reads_it(content: bytes) -> list[WriteStat]:
    stats = containers.decode(content)[STATS] or {}
    return [
        write_stat(partition, stat)
        for partition, stats_of_one in stats.items()
        for stat in stats_of_one
        if stat["path"]
    ]


def read(content: bytes) -> list[WriteStat]:
    return list(CommitMetadata.decode(content).writes)


@given(RECORD, st.sampled_from(KINDS))
def test_the_files_of_a_commit_are_those_that_fastavro_reads(
    record: dict[str, Any], kind: str
) -> None:
    content = containers.encode(kind, record)
    reader = StatsReader.of(containers.parsed(containers.split(content)[0]))

    assert read(content) == as_fastavro_reads_it(content)
    assert CommitMetadata.decode(content).extra == (record.get("extraMetadata") or {})
    assert reader is not None
    assert (record[STATS] is None) is (reader.read(containers.split(content)[1]) is None)


@given(RECORD, st.data())
def test_of_a_damaged_commit_is_read_what_fastavro_reads(
    record: dict[str, Any], data: st.DataObject
) -> None:
    content = bytearray(containers.encode(KINDS[0], record))
    body = len(containers.split(bytes(content))[1])
    at = len(content) - 16 - data.draw(st.integers(1, body))
    content[at] = data.draw(st.integers(0, 255))
    damaged = bytes(content)
    try:
        expected = as_fastavro_reads_it(damaged)
    except (FormatError, KeyError, TypeError):
        with pytest.raises(FormatError):
            CommitMetadata.decode(damaged)
    else:
        assert read(damaged) == expected


def test_fastavro_reads_no_more_of_a_commit_for_its_many_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_by_fastavro: list[int] = []
    really = fastavro.schemaless_reader

    def counting(file: io.BytesIO, *args: Any) -> Any:  # noqa: ANN401 - passed on
        read_by_fastavro.append(len(file.getvalue()))
        return really(file, *args)

    monkeypatch.setattr(fastavro, "schemaless_reader", counting)
    for files in (1, 1000):
        stats = {"p": [{"fileId": "g", "path": f"p/g{n}", "logFiles": []} for n in range(files)]}
        content = containers.encode(KINDS[0], {STATS: stats, "operationType": "UPSERT"})
        assert len(CommitMetadata.decode(content).writes) == files

    few, many = read_by_fastavro
    assert few == many < 20


Fields = list[dict[str, Any]]


def other_union(fields: Fields) -> None:
    fields[3]["type"] = ["long", "null"]


def other_type(fields: Fields) -> None:
    fields[4]["type"] = ["null", "bytes"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(list[dict[str, Any]].reverse, id="in another order"),
        pytest.param(list[dict[str, Any]].pop, id="without the last field, which is fine"),
        pytest.param(other_union, id="another union"),
        pytest.param(other_type, id="a type that Hudi does not use"),
    ],
)
def test_a_commit_of_another_schema_is_left_to_fastavro(
    change: Callable[[Fields], object], request: pytest.FixtureRequest
) -> None:
    schema = json.loads(json.dumps(containers.schema(KINDS[0])))
    change(schema["fields"][0]["type"][1]["values"]["items"]["fields"])
    is_read = StatsReader.of(fastavro.parse_schema(schema)) is not None
    assert is_read is ("fine" in request.node.name)


def test_a_partition_that_is_there_twice_counts_once_as_in_any_dictionary() -> None:
    stat = {"fileId": "g", "path": "p/g"}
    content = containers.encode(KINDS[0], {STATS: {"p": [stat], "q": [stat]}})
    twice = content.replace(b"\2q", b"\2p")
    assert [stat.partition for stat in read(twice)] == ["p"]


def test_of_a_json_commit_only_what_is_read_is_kept_of_each_file() -> None:
    """A stat has thirty fields, of which a dictionary for each file would take most memory."""
    others = {f"another{number}": 2**40 + number for number in range(25)}
    stats = [dict.fromkeys(FIELDS, f"g{n}") | others for n in range(500)]
    content = json.dumps({STATS: {"p": stats}, "operationType": "UPSERT"}).encode()

    def peak(action: Callable[[bytes], object]) -> int:
        tracemalloc.start()
        action(content)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size - 2 * len(content)

    assert peak(CommitMetadata.decode) < peak(json.loads) / 3


def test_what_the_writer_added_to_a_json_commit_is_kept_whole_whatever_its_names() -> None:
    extra = dict.fromkeys((*FIELDS, "another"), "x")
    whole = {STATS: {}, "extraMetadata": extra}
    assert CommitMetadata.decode(json.dumps(whole).encode()).extra == extra
