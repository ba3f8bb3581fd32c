"""The benchmark of the cleaner still runs, and checks that each side did its work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks/cleaning.py"


def test_a_cleaning_is_measured_beside_rmtree_and_the_bare_system_calls(tmp_path: Path) -> None:
    arguments = ["--directories", "30", "--rounds", "2", "--json", "--folder", str(tmp_path)]
    printed = subprocess.run(
        [sys.executable, SCRIPT, *arguments], check=True, stdout=subprocess.PIPE, timeout=300
    ).stdout
    found = json.loads(printed)
    for ours, peer in (("plan", "walk"), ("cleaning", "rmtree"), ("cleaning", "floor")):
        assert found[f"{ours}_over_{peer}"] == found[f"{ours}_s"] / found[f"{peer}_s"]
    assert len(found["cleaning_over_rmtree_by_round"]) == 2
    assert list(tmp_path.iterdir()) == []
