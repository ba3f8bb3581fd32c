"""Runs tests on copies of the tree in which a rule is broken, in the background of other tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutants.mutants import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("schemas", "producers", "consumers", "tests", "pyproject.toml")
AT_ONCE = 2
LONGEST = 600
"""Seconds: whatever else runs goes first."""
ALL_OF_THEM = 3600
"""Seconds for every test that a mutant names, one after the other."""

Result = subprocess.CompletedProcess[str]


class Runs:
    """Mutants that were begun, by their rule; as many run at a time as there are copies."""

    def __init__(self, folder: Path) -> None:
        self._copies: SimpleQueue[Path] = SimpleQueue()
        for _ in range(AT_ONCE):
            self._copies.put(copied(Path(tempfile.mkdtemp(dir=folder))))
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._begun: dict[str, Future[Result]] = {}

    def begin(self, mutants: Iterable[Mutant], servers: str | None = None) -> None:
        for mutant in mutants:
            if mutant.rule not in self._begun:
                self._begun[mutant.rule] = self._pool.submit(self._judge, mutant, servers)

    def result(self, mutant: Mutant) -> Result:
        return self._begun[mutant.rule].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _judge(self, mutant: Mutant, servers: str | None) -> Result:
        copy = self._copies.get()
        try:
            return run_broken(mutant, copy, servers)
        finally:
            self._copies.put(copy)


def copied(folder: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def run(folder: Path, tests: str, servers: str | None, longest: float) -> Result:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    if servers:
        environment["KAFKA_BOOTSTRAP_SERVERS"] = servers
    command = ["nice", "-n", "19", sys.executable, "-m", "pytest", "-x", "-q"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *tests.split(" ")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=longest,
        check=False,
    )


def run_broken(mutant: Mutant, copy: Path, servers: str | None) -> Result:
    file = copy / mutant.file
    sound = file.read_text("utf-8")
    try:
        file.write_text(broken(mutant, sound), "utf-8")
        return run(copy, mutant.tests, servers, LONGEST if mutant.edits else ALL_OF_THEM)
    finally:
        file.write_text(sound, "utf-8")


def broken(mutant: Mutant, sound: str) -> str:
    for old, new in mutant.edits:
        found = sound.count(old)
        assert found == 1, f"{mutant.file} has it {found} times: bring '{mutant.rule}' up to date"
        sound = sound.replace(old, new)
    return sound
