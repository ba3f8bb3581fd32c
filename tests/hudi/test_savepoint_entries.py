"""The encoded partitions of a savepoint: what is changed, copied, and refused as damaged."""

from __future__ import annotations

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import FormatError
from tidegate.hudi import SavepointEntries, containers

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=90)
FILES = st.dictionaries(NAMES, st.lists(NAMES, max_size=3).map(tuple), max_size=70)


def by_fastavro(data: bytes) -> dict[str, tuple[str, ...]]:
    fields = containers.schema("HoodieSavepointMetadata")["fields"]
    (of_map,) = (field["type"] for field in fields if field["name"] == "partitionMetadata")
    read = containers.decode_value(fastavro.parse_schema(of_map), data)
    return {path: tuple(entry["savepointDataFile"]) for path, entry in read.items()}


@given(FILES, FILES)
def test_what_is_changed_reads_as_any_avro_reader_reads_it(
    before: dict[str, tuple[str, ...]], changes: dict[str, tuple[str, ...]]
) -> None:
    first = SavepointEntries.of(before).encode()
    read, end = SavepointEntries.read(first, 0)
    assert end == len(first)
    gone = dict.fromkeys(sorted(before)[::3])

    changed = read.changed(gone | changes).encode()

    expected = {path: names for path, names in before.items() if path not in gone} | changes
    assert by_fastavro(first) == before
    assert by_fastavro(changed) == expected
    assert dict(SavepointEntries.read(changed, 0)[0]) == expected


def test_blocks_without_a_change_are_copied() -> None:
    names = {f"day={number:03d}": (f"{number}.parquet",) for number in range(160)}
    data = SavepointEntries.of(names).encode()
    read, _ = SavepointEntries.read(data, 0)

    changed = read.changed({"day=080": ("other.parquet",)})

    copied = [new for old, new in zip(read.blocks, changed.blocks, strict=True) if new is old]
    assert len(copied) == len(read.blocks) - 1
    assert len(read.blocks) == 10
    assert changed["day=080"] == ("other.parquet",)


@pytest.mark.parametrize("length", [3, 90, 9000])
def test_one_that_ends_too_early_is_refused_wherever_it_ends(length: int) -> None:
    names = {"p" * length: ("a.parquet",), "q": ("b.parquet", "c.parquet")}
    data = SavepointEntries.of(names).encode()

    for end in range(len(data)):
        with pytest.raises(FormatError):
            SavepointEntries.read(data[:end], 0)


@given(st.binary(max_size=60))
def test_of_anything_else_nothing_but_a_format_error_is_raised(data: bytes) -> None:
    try:
        read, end = SavepointEntries.read(data, 0)
        assert end <= len(data)
        dict(read)
    except FormatError:
        pass
