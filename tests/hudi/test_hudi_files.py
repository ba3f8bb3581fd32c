from __future__ import annotations

from datetime import UTC

import pytest

from tidegate.errors import FormatError
from tidegate.hudi.file_slice import BaseFile, LogFile, SliceRules, latest_slices, replaced_groups
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.hudi.properties import METADATA_PARTITIONS, TableProperties, without
from tidegate.hudi.timeline import Timeline

ONE, TWO, THREE = "20260301100100000", "20260301100200000", "20260301100300000"
TIMELINE = Timeline.of(
    [Instant(t, Action.COMMIT, InstantState.COMPLETED, t) for t in (ONE, TWO, THREE)]
)


def test_a_base_file_s_name_reads_back() -> None:
    name = f"7eae45c5-4f6e-4e96-b4a0-c6320ee2065b-0_0-33-58_{ONE}.parquet"

    base = BaseFile.parse(name)

    assert base == BaseFile("7eae45c5-4f6e-4e96-b4a0-c6320ee2065b-0", "0-33-58", ONE, "parquet")
    assert base is not None
    assert base.file_name == name


@pytest.mark.parametrize("token", ["_0-2222-4535", "", "_0-20-32.cdc"])
def test_a_log_file_s_name_reads_back(token: str) -> None:
    name = f".1572c20d-1c99-47a0-b388-bbc2217ed235-0_{ONE}.log.1{token}"

    log = LogFile.parse(name)

    assert log is not None
    assert (log.instant, log.version, log.token) == (ONE, 1, token.removeprefix("_") or None)
    assert log.file_name == name
    assert BaseFile.parse(name) is None


@pytest.mark.parametrize(
    "name", [".hoodie_partition_metadata", f".a_0-1-2_{ONE}.parquet.crc", "a.parquet", "_SUCCESS"]
)
def test_other_files_are_not_data(name: str) -> None:
    assert BaseFile.parse(name) is None
    assert LogFile.parse(name) is None


RULES = SliceRules(TIMELINE, Layout.TWO)


def names(*files: tuple[str, str]) -> list[str]:
    return [f"{group}_0-1-2_{instant}.parquet" for group, instant in files]


def test_a_group_shows_its_newest_file_at_or_before_the_instant() -> None:
    files = names(("a", ONE), ("a", TWO), ("a", THREE), ("b", THREE))

    latest = latest_slices("p0", files, RULES, TWO, frozenset())

    assert [name for slice_ in latest for name in slice_.file_names] == names(("a", TWO))


def test_files_of_writes_that_never_completed_are_passed_over() -> None:
    failed = "20260301100230000"
    files = names(("a", TWO), ("a", failed))

    latest = latest_slices("p0", files, RULES, THREE, frozenset())

    assert [name for slice_ in latest for name in slice_.file_names] == names(("a", TWO))


def test_files_of_archived_writes_count() -> None:
    archived = "20260228100000000"

    latest = latest_slices("p0", names(("a", archived)), RULES, THREE, frozenset())

    assert [base.instant for base in latest] == [archived]


def test_groups_replaced_by_then_are_left_out_and_only_in_their_partition() -> None:
    replacements = {TWO: {"p0": ["a"]}, THREE: {"p0": ["b"]}}
    files = names(("a", ONE), ("b", ONE))

    at_two = replaced_groups(replacements, TWO)

    assert at_two == {("p0", "a")}
    assert [b.file_id for b in latest_slices("p0", files, RULES, TWO, at_two)] == ["b"]
    assert [b.file_id for b in latest_slices("p1", files, RULES, TWO, at_two)] == ["a", "b"]


PROPERTIES = b"""#Updated at 2026-03-01T10:00:00Z
#Sun Mar 01 10:00:00 UTC 2026
hoodie.table.name=orders
hoodie.table.type=COPY_ON_WRITE
hoodie.table.version=9
hoodie.timeline.layout.version=2
hoodie.timeline.path=timeline
hoodie.table.timeline.timezone=LOCAL
hoodie.table.metadata.partitions=column_stats,files
hoodie.table.metadata.partitions.inflight=
hoodie.table.checksum=3653535234
hoodie.table.partition.fields=a\\:b
"""


def test_properties_are_read_as_java_reads_them() -> None:
    properties = TableProperties.parse(PROPERTIES)

    assert (properties.name, properties.version) == ("orders", 9)
    assert properties.layout is Layout.TWO
    assert properties.timeline_folder == ".hoodie/timeline"
    assert properties.zone is None
    assert METADATA_PARTITIONS[0] in properties.values
    assert properties.values["hoodie.table.partition.fields"] == "a:b"


@pytest.mark.parametrize(("version", "folder"), [(6, ".hoodie"), (8, ".hoodie/timeline")])
def test_the_layout_follows_the_table_version(version: int, folder: str) -> None:
    text = f"hoodie.table.name=orders\nhoodie.table.version={version}\n"

    properties = TableProperties.parse(text.encode() + b"hoodie.table.timeline.timezone=UTC")

    assert properties.timeline_folder == folder
    assert properties.zone is UTC
    assert METADATA_PARTITIONS[0] not in properties.values


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hoodie.table.name=orders",
        "hoodie.table.version=9",
        "hoodie.table.name=a\nhoodie.table.version=nine",
        "hoodie.table.name=a\nhoodie.table.version=9\nhoodie.timeline.layout.version=3",
    ],
)
def test_properties_without_what_every_table_has_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        TableProperties.parse(text.encode())


def test_an_escaped_character_is_read_by_all_its_digits() -> None:
    escaped = PROPERTIES + rb"hoodie.table.comment=\u20ac \u1e00"

    assert TableProperties.parse(escaped).values["hoodie.table.comment"] == "\u20ac \u1e00"


def test_taking_keys_out_leaves_every_other_byte() -> None:
    lines = PROPERTIES.splitlines(keepends=True)

    edited = without(PROPERTIES, METADATA_PARTITIONS)

    assert edited == b"".join(line for line in lines if b"metadata.partitions" not in line)
    assert len(edited.splitlines()) == len(lines) - 2
