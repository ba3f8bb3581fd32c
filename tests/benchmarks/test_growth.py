"""The benchmark of growth still runs, and finds what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.json_lines import json_lines

SCRIPT = Path(__file__).parents[2] / "benchmarks/growth.py"


def measured(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments, "--json", "--folder", str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        env=os.environ | environment,
    ).stdout
    assert list(folder.iterdir()) == []
    return {line["goal"]: line for line in json_lines(printed)}


@pytest.mark.full
def test_a_row_is_measured_beside_its_floor_with_its_memory_a_line_a_goal(tmp_path: Path) -> None:
    found = measured(tmp_path, "--rows", "restore over commits", "--largest", "50")
    name = "restore over commits of 10 files"
    assert list(found) == [
        f"{name}: exponent",
        f"{name}, 50 commits: MB",
        f"{name}, 50 commits: seconds by the floor's",
    ]
    exponent, memory, seconds = found.values()
    assert exponent["wanted"] >= 1.1
    assert memory["reached"] is (1 < memory["ours"] <= memory["wanted"] == 256)
    assert seconds["ratio"] == pytest.approx(seconds["ours"] / seconds["peer"], 0.02)
    assert (seconds["wanted"], seconds["reached"]) == (None, None)


@pytest.mark.full
def test_people_are_shown_every_size(tmp_path: Path) -> None:
    arguments = ["--rows", "list a directory", "--largest", "5000", "--folder", str(tmp_path)]
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert [line.split()[:2] for line in printed.splitlines() if "!" not in line] == [
        ["list", "a"],
        ["500", "entries"],
        ["5,000", "entries"],
    ]


@pytest.mark.full
@pytest.mark.kafka
def test_a_row_about_the_bus_counts_what_its_goals_are_about(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    arguments = ["--rows", "one outcome", "--largest", "1000"]
    found = measured(tmp_path, *arguments, KAFKA_BOOTSTRAP_SERVERS=bootstrap_servers)
    assert found["one outcome, 1,000 names: MB"]["reached"]
    counted = found["one outcome, 1,000 names: bytes in the largest message"]
    assert 20_000 < counted["ours"] < 40_000


@pytest.mark.parametrize(
    "name",
    [path.stem for path in sorted(SCRIPT.parent.glob("*.py")) if "def main(" in path.read_text()],
)
def test_every_benchmark_says_how_to_run_it_and_runs_so_from_a_checkout(
    tmp_path: Path, name: str
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    printed = subprocess.run(
        [sys.executable, SCRIPT.with_name(f"{name}.py"), "--help"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    ).stdout
    assert f" .venv/bin/python benchmarks/{name}.py" in " ".join(printed.split())
    assert "PYTHONPATH" not in printed
    assert "--json" in printed
