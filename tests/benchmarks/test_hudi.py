"""The benchmark beside Hudi still runs, and checks that both sides did the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.json_lines import json_lines

SCRIPT = Path(__file__).parents[2] / "benchmarks/hudi.py"


def measured(folder: Path, *arguments: str) -> dict[str, Any]:
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments, "--rounds", "1", "--json", "--folder", str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=500,
    ).stdout
    assert list(folder.iterdir()) == []
    return {line["goal"]: line for line in json_lines(printed)}


@pytest.mark.spark
def test_a_restore_among_more_partitions_is_measured_without_their_listing(tmp_path: Path) -> None:
    found = measured(tmp_path, "--goals", "untouched", "--partitions", "4")

    name = "restore among ten times as many untouched partitions"
    assert list(found) == [
        f"{name}, seconds without the listing",
        f"{name}, seconds of the listing",
    ]
    assert [times["wanted"] for times in found.values()] == [1.5, None]


@pytest.mark.spark
@pytest.mark.judge
@pytest.mark.full
def test_savepoints_and_restores_are_measured_beside_hudi_s(tmp_path: Path) -> None:
    goals = ("on Spark", "savepoint", "version 6")
    found = measured(tmp_path, "--goals", *goals, "--partitions", "3")

    assert len(found) == 2 * 4
    assert all(times["ours"] > 0 < times["peer"] for times in found.values())
