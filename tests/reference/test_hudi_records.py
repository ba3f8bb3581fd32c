"""What a record of real Hudi notices. Real Hudi is played by a function here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from support.hudi_records import LIVE, RECORD, REPLAY, RealHudi, base_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT = "20260101000000000"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], RealHudi]]:
    """Makes a Hudi of a mode. The folder of its tables is always another one."""
    with base_folder() as recorded, base_folder() as live, base_folder() as replayed:
        bases = {RECORD: recorded, LIVE: live, REPLAY: replayed}

        def started(mode: str) -> RealHudi:
            def session() -> SparkSession:
                assert mode != REPLAY, "a replay started Spark"
                return cast("SparkSession", object())

            return RealHudi(bases[mode], session, tmp_path, mode, "module")

        yield started


def play(hudi: RealHudi, ours: str = "ours", written: str = "Hudi's", answer: int = 1) -> Path:
    """We write a file between two questions, the first of which removes one."""
    with hudi.recorded("a test"):
        table = hudi.root / "lake/orders"
        (table / ".hoodie").mkdir(parents=True)
        (table / "old.parquet").write_bytes(b"old")

        def writes() -> None:
            content = f"{written} of {hudi.base}"
            (table / ".hoodie" / f"{COMMIT}.commit").write_text(content)
            os.utime(table / ".hoodie" / f"{COMMIT}.commit", ns=(5_000_000, 5_000_000))
            (table / "p0").mkdir()
            (table / "p0/new.parquet").write_bytes(b"rows")
            (table / "old.parquet").unlink()

        def asked(live: Callable[[], object]) -> object:
            return hudi.ask(table, "a question", lambda _: live())

        assert asked(writes) is None
        (table / "ours").write_text(f"{ours} in {hudi.base}")
        assert asked(lambda: [[answer]]) == [[1]]
    return table


def test_a_replay_does_what_hudi_did_without_spark(start: Callable[[str], RealHudi]) -> None:
    live = play(start(RECORD))
    table = play(start(REPLAY))

    commit = table / f".hoodie/{COMMIT}.commit"
    assert commit.read_text() == f"Hudi's of {start(REPLAY).base}"
    assert commit.stat().st_mtime_ns == 5_000_000
    assert (table / "p0/new.parquet").stat().st_size == len(b"rows")
    names = {str(p.relative_to(live)) for p in live.rglob("*")}
    assert {str(p.relative_to(table)) for p in table.rglob("*")} == names
    assert "old.parquet" not in names


def test_a_replay_fails_where_our_part_is_not_what_hudi_was_asked_about(
    start: Callable[[str], RealHudi],
) -> None:
    play(start(RECORD))
    with pytest.raises(AssertionError, match="not the table that real Hudi was asked about"):
        play(start(REPLAY), ours="otherwise")


def test_a_replay_fails_where_less_is_asked_than_was_recorded(
    start: Callable[[str], RealHudi],
) -> None:
    play(start(RECORD))
    with (
        pytest.raises(AssertionError, match="asks 0 of 2 recorded questions"),
        start(REPLAY).recorded("a test"),
    ):
        pass


def test_a_live_run_fails_where_hudi_answers_otherwise_than_recorded(
    start: Callable[[str], RealHudi],
) -> None:
    hudi = start(RECORD)
    with hudi.recorded("answers"):
        hudi.ask(hudi.root, "a question", lambda _: [["20260101000000000", 1]])
    live = start(LIVE)
    with live.recorded("answers"):  # instants always differ
        live.ask(live.root, "a question", lambda _: [["20270101000000000", 1]])
    with pytest.raises(AssertionError, match="real Hudi differs"), live.recorded("answers"):
        live.ask(live.root, "a question", lambda _: [["20260101000000000", 2]])


def test_a_test_without_a_record_fails(start: Callable[[str], RealHudi]) -> None:
    with pytest.raises(pytest.fail.Exception, match="is missing"):
        play(start(REPLAY))
