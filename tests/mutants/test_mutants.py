"""Every rule in `mutants.py` is broken once, and its tests go red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.cleaning_mutants import CLEANING_MUTANTS
from mutants.mutants import DECIDERS, EXECUTORS, MUTANTS, Mutant
from mutants.operation_mutants import OPERATION_MUTANTS
from mutants.replay_mutants import GATE_REPLAY, REPLAY_MUTANTS, REPLAYS

ROOT = Path(__file__).parents[2]
COPIED = ("schemas", "producers", "consumers", "tests", "pyproject.toml")
TESTS_FAILED = 1

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutant")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def run(folder: Path, tests: str, servers: str | None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    if servers:
        environment["KAFKA_BOOTSTRAP_SERVERS"] = servers
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *tests.split(" ")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_copy_as_it_is_passes(copy: Path) -> None:
    result = run(copy, f"{DECIDERS} {EXECUTORS} {REPLAYS} {GATE_REPLAY}", None)

    assert result.returncode == 0, result.stdout[-3000:]


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, id=each.rule, marks=[pytest.mark.kafka] if each.needs_kafka else [])
        for each in (*MUTANTS, *CLEANING_MUTANTS, *OPERATION_MUTANTS, *REPLAY_MUTANTS)
    ],
)
def test_the_tests_go_red_when_the_rule_is_broken(
    mutant: Mutant, copy: Path, request: pytest.FixtureRequest
) -> None:
    servers = request.getfixturevalue("bootstrap_servers") if mutant.needs_kafka else None
    file = copy / mutant.file
    sound = file.read_text("utf-8")
    broken = sound
    for old, new in mutant.edits:
        assert old in broken, f"{mutant.file} has changed: bring the mutant up to date"
        broken = broken.replace(old, new)
    try:
        file.write_text(broken, "utf-8")
        result = run(copy, mutant.tests, servers)
    finally:
        file.write_text(sound, "utf-8")

    assert result.returncode == TESTS_FAILED, result.stdout[-3000:] + result.stderr[-1000:]
