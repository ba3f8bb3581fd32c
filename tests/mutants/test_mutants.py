"""Every rule in `mutants.py` is broken once, and its tests go red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import pytest

from mutants.cleaning_mutants import CLEANING_MUTANTS
from mutants.mutants import DECIDERS, EXECUTORS, MUTANTS, Mutant
from mutants.operation_mutants import OPERATION_MUTANTS
from mutants.replay_mutants import GATE_REPLAY, REPLAY_MUTANTS, REPLAYS

ROOT = Path(__file__).parents[2]
COPIED = ("schemas", "producers", "consumers", "tests", "pyproject.toml")
TESTS_FAILED = 1
AT_ONCE = 2
ALL = (*MUTANTS, *CLEANING_MUTANTS, *OPERATION_MUTANTS, *REPLAY_MUTANTS)

pytestmark = pytest.mark.slow


def copied(folder: Path) -> Path:
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


def run_broken(mutant: Mutant, copy: Path, servers: str | None) -> subprocess.CompletedProcess[str]:
    file = copy / mutant.file
    sound = file.read_text("utf-8")
    broken = sound
    for old, new in mutant.edits:
        assert old in broken, f"{mutant.file} has changed: bring the mutant up to date"
        broken = broken.replace(old, new)
    try:
        file.write_text(broken, "utf-8")
        return run(copy, mutant.tests, servers)
    finally:
        file.write_text(sound, "utf-8")


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Mapping[str, Future[subprocess.CompletedProcess[str]]]]:
    """Every mutant that was asked for, by its rule, run as many at a time as there are copies."""
    asked = [
        cast("Mutant", item.callspec.params["mutant"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.function is test_the_tests_go_red_when_the_rule_is_broken
    ]
    kafka = any(each.needs_kafka for each in asked)
    servers: str | None = request.getfixturevalue("bootstrap_servers") if kafka else None
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(AT_ONCE):
        copies.put(copied(tmp_path_factory.mktemp(f"mutant-{number}")))

    def judge(mutant: Mutant) -> subprocess.CompletedProcess[str]:
        copy = copies.get()
        try:
            return run_broken(mutant, copy, servers if mutant.needs_kafka else None)
        finally:
            copies.put(copy)

    pool = ThreadPoolExecutor(AT_ONCE)
    yield {each.rule: pool.submit(judge, each) for each in asked}
    pool.shutdown(cancel_futures=True)


def test_the_copy_as_it_is_passes(tmp_path: Path) -> None:
    result = run(copied(tmp_path), f"{DECIDERS} {EXECUTORS} {REPLAYS} {GATE_REPLAY}", None)

    assert result.returncode == 0, result.stdout[-3000:]


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({each.rule for each in ALL}) == len(ALL)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, id=each.rule, marks=[pytest.mark.kafka] if each.needs_kafka else [])
        for each in ALL
    ],
)
def test_the_tests_go_red_when_the_rule_is_broken(
    mutant: Mutant, runs: Mapping[str, Future[subprocess.CompletedProcess[str]]]
) -> None:
    result = runs[mutant.rule].result()

    assert result.returncode == TESTS_FAILED, result.stdout[-3000:] + result.stderr[-1000:]
