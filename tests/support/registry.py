"""One real schema registry, Apicurio, for the whole test session: started from its locked jars."""

from __future__ import annotations

import os
import signal
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from support.jar_locks import resolve
from tidegate.compute.java import find_java
from tidegate.embedded.process import Child, free_ports

_LOCK = Path(__file__).with_name("apicurio.json")
_QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PATIENCE = 90.0


@dataclass(frozen=True)
class RunningRegistry:
    """A registry that runs. `url` is where it speaks Confluent's API."""

    url: str
    pid: int

    def stall(self) -> None:
        """Let it answer no client, as a machine without memory left does."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """A real schema registry, shared by all tests: take your topics' names from `topic_prefix`."""
    folder = tmp_path_factory.mktemp("registry")
    [archive] = resolve(_LOCK)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    [runner] = folder.glob("*-runner.jar")
    port = free_ports()[0]
    options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    command = [str(find_java(17)), *_QUICK, *options, "-jar", str(runner)]
    child = Child(command, folder / "registry.log")
    try:
        yield RunningRegistry(_until_up(child, port), child.pid)
    finally:
        if not child.end(signal.SIGTERM, 10):
            child.end(signal.SIGKILL, 10)


def _until_up(child: Child, port: int) -> str:
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and child.exit_code is None:
        try:
            with urlopen(f"{url}/subjects", timeout=5):  # noqa: S310 - our own address
                return url
        except (URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"the schema registry did not come up:\n{child.tail()}")
