"""The benchmark of growth still runs, and finds what it should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
