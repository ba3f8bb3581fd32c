"""Damaged and invented inputs for every decoder of what others wrote: ten thousand in `test-full`.

Each decoder runs in a process of its own, which may have 256 MB more than it begins with. It
answers each input within two seconds (of its own time: the machine may be busy), by a value or by
an error that it documents. The inputs are the same in every run. What they found so far was found
by nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.budget import examples
from support.fuzzing import DECODERS

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("tests", "consumers", "producers", "schemas")
COSTLY: Final = {
    "registry_schemas": 40,
    "hudi_containers": 30,
    "event_json": 40,
    "stored_outcomes": 40,
    "planned_restore_json": 40,
}
USUAL: Final = 72
EXAMPLES: Final = {name: examples(COSTLY.get(name, USUAL)) for name in DECODERS}


def tried(name: str, examples: int, last: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / source) for source in SOURCES)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.fuzzing", name, str(examples), str(last)],
        env={**os.environ, "PYTHONPATH": path, "TIDEGATE_CONFIG": ""},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("name", DECODERS)
def test_no_input_ends_fills_or_stops_a_decoder(name: str, tmp_path: Path) -> None:
    last = tmp_path / "last input"
    done = tried(name, EXAMPLES[name], last)

    assert done.returncode == 0, f"{done.stderr[-5000:]}\nlast input: {last.read_bytes()[:2000]!r}"
    assert int(done.stdout) >= EXAMPLES[name]


def test_there_are_ten_thousand_inputs_in_test_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.budget.TIMES", 10)
    assert sum(examples(COSTLY.get(name, USUAL)) for name in DECODERS) >= 10_000


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        ("ends_the_process", ""),
        ("fills_the_memory", "MemoryError"),
        ("never_ends", "AssertionError"),
        ("breaks", "KeyError"),
    ],
)
def test_a_decoder_that_is_at_fault_is_seen_with_its_input(
    broken: str, seen: str, tmp_path: Path
) -> None:
    done = tried(broken, 1, tmp_path / "last")

    assert done.returncode != 0
    assert seen in done.stderr
    assert (tmp_path / "last").read_bytes() == b"the input"
