"""A commit's JSON is read piece by piece, and what comes out is what the json module gives."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FormatError
from tidegate.hudi import CommitMetadata
from tidegate.hudi.json_stats import read_json_stats
from tidegate.hudi.write_stats import STATS

TEXT = st.text('ab"\\/{}[]:, \n\u00e9\U0001f600', max_size=8)
STAT = st.fixed_dictionaries(
    {"fileId": st.none() | TEXT, "path": st.none() | TEXT},
    optional={
        "prevCommit": st.none() | TEXT,
        "numWrites": st.integers(0, 2**40),
        "runtimeStats": st.dictionaries(TEXT, st.integers() | TEXT, max_size=2),
        "logFiles": st.lists(TEXT, max_size=2),
    },
)
RECORD = st.fixed_dictionaries(
    {STATS: st.none() | st.dictionaries(TEXT, st.lists(STAT, max_size=3), max_size=3)},
    optional={
        "extraMetadata": st.dictionaries(TEXT, TEXT, max_size=2),
        "operationType": st.none() | TEXT,
        "partitionToReplaceFileIds": st.dictionaries(TEXT, st.lists(TEXT, max_size=2), max_size=2),
    },
)


@contextmanager
def windows_of(size: int) -> Generator[None]:
    with patch("tidegate.hudi.json_stats._WINDOW", size):
        yield


def read(content: bytes) -> CommitMetadata | str:
    try:
        return CommitMetadata.decode(content)
    except FormatError as error:
        return str(error)


def as_the_json_module_reads_it(content: bytes) -> CommitMetadata | str:
    with patch("tidegate.hudi.commit.read_json_stats", lambda _: None):
        return read(content)


def written(record: dict[str, Any], indent: int | None = None) -> bytes:
    in_order = {STATS: record[STATS]} | record
    return json.dumps(in_order, indent=indent, ensure_ascii=indent is None).encode()


@given(RECORD, st.sampled_from([None, 2]), st.sampled_from([1, 7, 2**20]))
def test_a_commit_is_what_the_json_module_reads(
    record: dict[str, Any], indent: int | None, window: int
) -> None:
    content = written(record, indent)

    with windows_of(window):
        assert read(content) == as_the_json_module_reads_it(content)
        assert (read_json_stats(content) is None) == (record[STATS] is None)


@given(
    RECORD,
    st.integers(0, 10_000),
    st.sampled_from([b"", b'"', b"}", b"]", b",", b"[", b"{", b"\xff", b"0", b"null", b"\\"]),
    st.integers(0, 2),
)
def test_a_damaged_commit_is_what_the_json_module_says_of_it(
    record: dict[str, Any], at: int, put: bytes, left_out: int
) -> None:
    content = written(record, 2)
    at %= len(content) + 1
    damaged = content[:at] + put + content[at + left_out :]

    with windows_of(5):
        assert read(damaged) == as_the_json_module_reads_it(damaged)


ONE = '{"fileId": "g", "path": "p/g"}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"{STATS}": {{"p": [{ONE}], "p": []}}}}', id="a partition twice"),
        pytest.param(f'{{"{STATS}": {{"p": [{ONE}]}}, "{STATS}": {{}}}}', id="stats twice"),
        pytest.param(f'{{"operationType": "X", "{STATS}": {{"p": [{ONE}]}}}}', id="not the first"),
        pytest.param(f'{{"{STATS}": {{"p": [{ONE},]}}}}', id="a comma too many"),
        pytest.param(f'{{"{STATS}": {{"p": [{ONE}]}},}}', id="a comma at the end"),
        pytest.param(f'{{"{STATS}": {{"p": [{ONE}]}}}} more', id="more behind it"),
        pytest.param(f'{{"{STATS}": {{"p": [{{"path": "p/g"}}]}}}}', id="a field that is missing"),
        pytest.param(f'{{"{STATS}": {{"p": ["p/g"]}}}}', id="a text for a stat"),
        pytest.param(f'{{"{STATS}": {{"p": [{ONE}', id="cut off"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_hudi_does_not_write_is_left_to_the_json_module(text: str, encoding: str) -> None:
    content = text.encode(encoding)

    assert read_json_stats(content) is None
    assert read(content) == as_the_json_module_reads_it(content)


def test_a_large_commit_is_read_beside_its_bytes_in_what_its_files_take() -> None:
    stat = dict.fromkeys((f"another{number}" for number in range(25)), 2**40)
    stats = [{"fileId": f"{n}", "path": f"p/{n}", "prevCommit": "1"} | stat for n in range(10_000)]
    content = json.dumps({STATS: {"p": stats}, "operationType": "UPSERT"}).encode()
    del stats

    tracemalloc.start()
    made = CommitMetadata.decode(content)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(made.writes) == 10_000
    assert peak - kept < 5 * 2**20 < len(content)
    assert kept < 400 * 10_000
