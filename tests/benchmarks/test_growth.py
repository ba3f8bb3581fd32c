"""The benchmark of growth still runs, and finds what it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/growth.py"


def test_a_row_is_measured_beside_its_floor_with_its_memory_and_goals(tmp_path: Path) -> None:
    arguments = ["--rows", "restore over commits", "--largest", "50", "--json"]
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments, "--folder", str(tmp_path)],
        check=True,
        stdout=subprocess.PIPE,
        timeout=300,
    ).stdout
    [(name, row)] = json.loads(printed).items()
    assert name == "restore over commits of 10 files"
    assert [each["size"] for each in row["sizes"]] == [5, 50]
    assert row["unit"] == "commits"
    assert isinstance(row["exponent"], float)
    goals = {each["goal"]: each for each in row["goals"]}
    assert set(goals) == {"exponent", "MB"}
    assert goals["MB"]["reached"] is (goals["MB"]["ours"] <= goals["MB"]["wanted"])
    assert all(each["seconds"] > 0 < each["floor_seconds"] for each in row["sizes"])
    assert all(each["peak_mb"] >= each["start_mb"] > 1 for each in row["sizes"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kafka
def test_a_row_about_the_bus_counts_what_its_goals_are_about(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    arguments = ["--rows", "one outcome", "--largest", "1000", "--json"]
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments, "--folder", str(tmp_path)],
        check=True,
        stdout=subprocess.PIPE,
        timeout=300,
        env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers},
    ).stdout
    [(_, row)] = json.loads(printed).items()
    [size] = row["sizes"]
    assert (row["exponent"], [each["goal"] for each in row["goals"]]) == (None, ["MB"])
    assert 20_000 < size["counts"]["bytes in the largest message"] < 40_000
    assert list(tmp_path.iterdir()) == []
