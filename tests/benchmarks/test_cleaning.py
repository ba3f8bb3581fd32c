"""The benchmark of the cleaner still runs, and checks that each side did its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.json_lines import json_lines

SCRIPT = Path(__file__).parents[2] / "benchmarks/cleaning.py"


def test_a_cleaning_is_measured_beside_rmtree_and_the_bare_system_calls(tmp_path: Path) -> None:
    arguments = ["--directories", "30", "--rounds", "2", "--json", "--folder", str(tmp_path)]
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    ).stdout
    found = {line["goal"]: line for line in json_lines(printed)}
    assert [name.partition(" beside ")[2] for name in found] == [
        "a bare walk, seconds",
        "a bare walk, seconds of processor time",
        "rmtree one by one, seconds",
        "rmtree, the slowest round, seconds",
        "two threads of bare system calls, seconds",
    ]
    assert all(seconds["ours"] > 0 < seconds["peer"] for seconds in found.values())
    assert list(tmp_path.iterdir()) == []
