"""Nothing is removed on the word of one source."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyorc
import pytest

from support.acid import (
    INSERT_1,
    INSERT_2,
    INSERTS,
    MAJOR_3,
    MINOR_3,
    NOON,
    NOTHING_OPEN,
    build,
    names_in,
    release,
)
from tidegate.cleaning.confirmation import Proof
from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.plan import Cleaning, CleaningPlan, content_of
from tidegate.cleaning.quarantine import FOLDER
from tidegate.cleaning.second_source import SecondSource
from tidegate.cleaning.settings import CleaningSettings
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import aborted_command
from tidegate.events import (
    CleaningDeferred,
    CleaningMode,
    CleaningRefused,
    CleaningReleased,
    DirectoriesCleaned,
    Outcome,
    WritesAborted,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import released_again
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

NO = Refused(Reason.NOT_CONFIRMED, "the Metastore has 7 as open")


class Answering(SecondSource):
    """A source that gives these answers, one after the other, and then the last one again."""

    def __init__(self, *answers: Proof | Refused, aborted: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.left = list(answers)
        self._aborted = frozenset(aborted)
        self.asked = 0
        """How often it was asked for the transactions that aborted."""

    def aborted(self, command: Cleaning) -> frozenset[int]:
        assert command.table
        self.asked += 1
        return self._aborted

    def confirm(self, command: Cleaning, plan: CleaningPlan) -> Proof:
        assert plan.remove
        assert command.table
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, Refused):
            raise answer
        return answer


def cleaner(root: Path, second: SecondSource) -> Cleaner:
    warehouse = Warehouse(WarehouseRoots.of(str(root)))
    return Cleaner(warehouse, ThreadMap(2), lambda: NOON, second=second)


def clean(root: Path, second: SecondSource, command: Cleaning) -> Outcome:
    *_, outcome = cleaner(root, second).execute(command)
    return outcome


def orc_file(
    rows: int = 1, compression: pyorc.CompressionKind = pyorc.CompressionKind.ZLIB
) -> bytes:
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<id:int>", compression=compression) as writer:
        for row in range(rows):
            writer.write((row,))
    return out.getvalue()


def vacuumed(root: Path, *buckets: str) -> CleaningReleased:
    """A minor compaction of three inserts of two buckets; which buckets it has written."""
    location = build(root / "t", dict.fromkeys(INSERTS, 9))
    for name in INSERTS:
        (location / name / "bucket_00001").write_bytes(b"rows")
    (location / MINOR_3).mkdir()
    (location / MINOR_3 / "_orc_acid_version").write_text("2")
    for bucket in buckets:
        (location / MINOR_3 / bucket).write_bytes(orc_file())
    return release(str(location))


BOTH = ("bucket_00000", "bucket_00001")


def test_a_contradiction_removes_nothing_and_the_vacuum_goes_on_waiting(tmp_path: Path) -> None:
    command = vacuumed(tmp_path, *BOTH)
    command = command.model_copy(update={"last_lock_id": 4, "last_transaction_id": 9})

    outcome = clean(tmp_path, Answering(NO), command)

    assert isinstance(outcome, CleaningDeferred)
    assert outcome.reason == Reason.NOT_CONFIRMED
    assert outcome.message == "the Metastore has 7 as open"
    assert set(INSERTS) <= set(names_in(tmp_path / "t"))
    again = released_again(outcome, NOON, command.source)
    assert again == command
    confirmed = clean(tmp_path, Answering(Proof.CONFIRMED), again)
    assert isinstance(confirmed, DirectoriesCleaned)
    assert names_in(tmp_path / "t") == [MINOR_3]


def test_where_nothing_is_to_be_removed_nothing_is_asked(tmp_path: Path) -> None:
    command = vacuumed(tmp_path, *BOTH)
    clean(tmp_path, SecondSource(believed=True), command)

    assert isinstance(clean(tmp_path, Answering(NO), command), DirectoriesCleaned)


@pytest.mark.parametrize("failed", ["base_0000003_v0000008", "delta_0000001_0000003_v0000008"])
def test_what_a_compaction_left_that_aborted_goes_with_the_next_ones_inputs(
    tmp_path: Path, failed: str
) -> None:
    """Else every reader would see it, and perhaps not all rows, once the abort is forgotten."""
    made = "delta_0000001_0000003_v0000009"
    location = build(tmp_path / "t", dict.fromkeys([*INSERTS, made, failed], 9))
    command = release(str(location), directories=(made,), own_transaction_id=9)

    clean(tmp_path, Answering(Proof.CONFIRMED), command)
    assert names_in(location) == sorted([made, failed]), "it is not known to have aborted"

    outcome = clean(tmp_path, Answering(Proof.CONFIRMED, aborted=(8,)), command)
    assert isinstance(outcome, DirectoriesCleaned)
    assert names_in(location) == [made]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("delta_0000001_0000002_v0000007", id="replaced"),
        pytest.param("base_0000004_v0000012", id="later"),
    ],
)
def test_who_aborted_is_asked_only_where_a_directory_would_stay(tmp_path: Path, other: str) -> None:
    made = "base_0000003_v0000009"
    location = build(tmp_path / "t", dict.fromkeys([*INSERTS, made, other], 9))
    fields = {"kind": "major", "directories": (made,), "own_transaction_id": 9}
    command = release(str(location), **fields)
    source = Answering(Proof.CONFIRMED)

    clean(tmp_path, source, command)
    assert names_in(location) == [made, *([other] if other.startswith("base") else [])]
    assert source.asked == 0


def test_what_can_not_be_proven_goes_into_quarantine(tmp_path: Path) -> None:
    outcome = clean(tmp_path, SecondSource(), vacuumed(tmp_path, *BOTH))

    assert isinstance(outcome, DirectoriesCleaned)
    assert outcome.mode == "quarantine"
    assert names_in(tmp_path / "t") == [FOLDER, MINOR_3]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(SecondSource(believed=True), id="nothing"),
        pytest.param(SecondSource(), id="quarantine"),
    ],
)
def test_an_early_vacuum_does_not_take_the_inputs_of_an_unfinished_compaction(
    tmp_path: Path, second: SecondSource
) -> None:
    outcome = clean(tmp_path, second, vacuumed(tmp_path, "bucket_00000"))

    assert isinstance(outcome, CleaningRefused)
    assert outcome.reason == Reason.PRODUCTS_INCOMPLETE
    assert outcome.message == (
        f"{INSERT_1} has bucket_00001, which none of the vacuum's products has"
    )
    assert set(INSERTS) <= set(names_in(tmp_path / "t"))


@pytest.mark.parametrize(
    "end", [pytest.param(0, id="empty footer"), pytest.param(7, id="cut"), pytest.param(60, id="c")]
)
def test_a_file_of_a_product_that_was_not_written_to_its_end_is_incomplete(
    tmp_path: Path, end: int
) -> None:
    command = vacuumed(tmp_path, *BOTH)
    content = orc_file()
    cut = content[:-end] if end else b"x" * len(content)
    (tmp_path / "t" / MINOR_3 / BOTH[1]).write_bytes(cut)

    outcome = clean(tmp_path, SecondSource(), command)

    assert isinstance(outcome, CleaningRefused)
    assert "bucket_00001 does not end as an ORC file does" in outcome.message
    assert set(INSERTS) <= set(names_in(tmp_path / "t"))


def honest() -> Iterator[tuple[dict[str, list[str]], dict[str, object]]]:
    two, one = ["bucket_00000", "bucket_00001"], ["bucket_00000"]
    major: dict[str, object] = {"kind": "major", "directories": (MAJOR_3,)}
    yield {INSERT_1: two, "delete_delta_0000002_0000002_0000": two, MAJOR_3: one}, major
    aborted: dict[str, object] = {"valid_write_ids": f"default.table_txn_001:3:{NOTHING_OPEN}::2"}
    yield {INSERT_1: one, "delta_0000002_0000003_0000": two, MAJOR_3: one}, major | aborted
    yield {INSERT_1: two, "base_0000002": one, MAJOR_3: one}, major
    yield {"delta_0000001_0000001_0000": ["bucket_00001_0"], MAJOR_3: ["bucket_00001"]}, major


@pytest.mark.parametrize(("directories", "fields"), list(honest()))
def test_a_bucket_whose_rows_may_all_be_gone_is_not_missed(
    tmp_path: Path, directories: dict[str, list[str]], fields: dict[str, object]
) -> None:
    location = tmp_path / "t"
    for name, buckets in directories.items():
        (location / name).mkdir(parents=True)
        for bucket in buckets:
            (location / name / bucket).write_bytes(orc_file())
    made = location / MAJOR_3
    made.joinpath("_metadata_acid").write_bytes(b'{"dataFormat":"compacted"}')

    outcome = clean(tmp_path, SecondSource(believed=True), release(str(location), **fields))

    assert isinstance(outcome, DirectoriesCleaned), outcome
    assert names_in(location) == [MAJOR_3]


DELETES = "delete_delta_0000002_0000002_0000"


@pytest.mark.parametrize(
    ("rows", "more", "is_complete"),
    [
        pytest.param({INSERT_1: 5, INSERT_2: 5, MAJOR_3: 10}, {}, True, id="all rows"),
        pytest.param({INSERT_1: 5, INSERT_2: 5, MAJOR_3: 9}, {}, False, id="one is missing"),
        pytest.param({INSERT_1: 5, DELETES: 2, MAJOR_3: 3}, {}, True, id="two were deleted"),
        pytest.param({INSERT_1: 5, DELETES: 2, MAJOR_3: 2}, {}, False, id="and one is missing"),
        pytest.param(
            {INSERT_1: 5, INSERT_2: 5, MAJOR_3: 5},
            {"valid_write_ids": f"default.table_txn_001:3:{NOTHING_OPEN}::2"},
            True,
            id="aborted",
        ),
        pytest.param(
            {INSERT_1: 5, "base_0000002": 1, MAJOR_3: 1}, {}, True, id="overwritten before"
        ),
        pytest.param(
            {INSERT_1: 5, "delta_0000001_0000002": 5, MAJOR_3: 5}, {}, True, id="compacted before"
        ),
        pytest.param(
            {INSERT_1: 5, DELETES: 2, MINOR_3: 4, f"delete_{MINOR_3}": 2},
            {"kind": "minor", "directories": (MINOR_3, f"delete_{MINOR_3}")},
            False,
            id="a minor compaction has deleted rows too",
        ),
    ],
)
@pytest.mark.parametrize(
    "compression", [pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZLIB], ids=["plain", "zlib"]
)
def test_products_with_fewer_rows_than_their_inputs_replace_nothing(
    tmp_path: Path,
    rows: dict[str, int],
    more: dict[str, object],
    compression: pyorc.CompressionKind,
    *,
    is_complete: bool,
) -> None:
    location = tmp_path / "t"
    for name, count in rows.items():
        (location / name).mkdir(parents=True)
        (location / name / "bucket_00000").write_bytes(orc_file(count, compression))
    if MAJOR_3 in rows:
        (location / MAJOR_3 / "_metadata_acid").write_bytes(b'{"dataFormat":"compacted"}')
    fields = {"kind": "major", "directories": (MAJOR_3,)} | more

    outcome = clean(tmp_path, SecondSource(), release(str(location), **fields))

    assert isinstance(outcome, DirectoriesCleaned) is is_complete, outcome
    if not is_complete:
        assert "of which at most" in getattr(outcome, "message", "")
        assert set(rows) <= set(names_in(location))


def test_footers_that_can_not_be_read_contradict_nothing(tmp_path: Path) -> None:
    command = vacuumed(tmp_path, *BOTH)
    for bucket in BOTH:
        other = orc_file(500, pyorc.CompressionKind.SNAPPY)
        (tmp_path / "t" / INSERT_1 / bucket).write_bytes(other)

    assert isinstance(clean(tmp_path, SecondSource(), command), DirectoriesCleaned)


def test_aborted_writes_go_only_where_a_metastore_can_confirm_it(tmp_path: Path) -> None:
    location = build(tmp_path / "t", {INSERT_1: 9, INSERT_2: 9})
    forged = WritesAborted(
        table="lake.sales.t",
        location=str(location),
        source="anybody",
        occurred_at=NOON,
        valid_write_ids=f"sales.t:2:{NOTHING_OPEN}::1,2",
        content="0" * 64,
    )
    files = Warehouse(WarehouseRoots.of(str(tmp_path)))
    found = read_acid_directories(files, str(location), ThreadMap(1)) or ()
    forged = forged.model_copy(update={"content": content_of(found)})
    outcome = clean(tmp_path, SecondSource(), aborted_command(forged, NOON))

    assert isinstance(outcome, CleaningRefused)
    assert outcome.reason == Reason.NOT_CONFIRMED
    assert names_in(location) == [INSERT_1, INSERT_2]


@pytest.mark.parametrize("mode", CleaningMode)
def test_a_contradiction_that_arises_during_a_long_removal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CleaningMode
) -> None:
    monkeypatch.setattr("tidegate.cleaning.removal.AT_ONCE", 100)
    names = [f"delta_{n:07}_{n:07}_0000" for n in range(1, 251)]
    location = build(tmp_path / "t", dict.fromkeys([*names, "delta_0000001_0000250"], 9))
    command = release(
        str(location),
        directories=("delta_0000001_0000250",),
        max_write_id=250,
        valid_write_ids=f"default.table_txn_001:250:{NOTHING_OPEN}::",
    )
    warehouse = Warehouse(WarehouseRoots.of(str(tmp_path)))
    second = Answering(Proof.CONFIRMED, Proof.CONFIRMED, NO)
    rules, often = CleaningSettings(mode=mode), timedelta(0)
    long = Cleaner(warehouse, ThreadMap(1), lambda: NOON, rules, second=second, confirm_every=often)

    *_, outcome = long.execute(command)

    assert isinstance(outcome, CleaningDeferred)
    left = set(names) & set(names_in(location))
    assert 0 < len(left) < len(names)
