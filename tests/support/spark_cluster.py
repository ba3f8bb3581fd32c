"""A real standalone Spark cluster: a master and two workers, whose Python has only Spark's own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import venv
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tidegate.compute.spark import compatible_java
from tidegate.embedded.process import Child

SECRET = "a-secret-of-these-tests"  # noqa: S105 - between processes of this machine
_PATIENCE = 120.0
_SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its master's address, its workers' processes and their Python."""

    master: str
    workers: tuple[Child, ...]
    python: Path

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a session on it."""
        return {
            "spark.master": self.master,
            "spark.authenticate": "true",
            "spark.authenticate.secret": SECRET,
            "spark.pyspark.python": str(self.python),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
        }


def bare_python(folder: Path) -> Path:
    """An interpreter without any package."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


@contextmanager
def cluster(folder: Path, cores: int = 1) -> Generator[Cluster]:
    """Start a master and two workers; kill them and their executors at the end."""
    python = bare_python(folder / "bare")
    running: list[Child] = []
    try:
        master = _start(folder, "master.Master", "--host", "127.0.0.1", "--port", "0")
        running.append(master)
        url = _logged(master, r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            own = ("--host", "127.0.0.1", "--cores", str(cores), "--memory", "600m")
            work = folder / f"worker-{number}"
            worker = _start(folder, "worker.Worker", *own, "-d", str(work), url, name=work.name)
            running.append(worker)
        for worker in running[1:]:
            _logged(worker, r"Successfully registered with (master \S+)")
        yield Cluster(url, tuple(running[1:]), python)
    finally:
        for child in reversed(running):
            kill(child)


def kill(child: Child) -> None:
    """SIGKILL a process and its children: a worker and its executors."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(child.pid)], capture_output=True, text=True, check=False
    )
    child.end(signal.SIGKILL, 10)
    for pid in listed.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _start(folder: Path, main: str, *arguments: str, name: str = "master") -> Child:
    options = ["-Xmx256m", "-Dspark.authenticate=true", f"-Dspark.authenticate.secret={SECRET}"]
    command = [
        *(str(compatible_java()), *options, "-cp", f"{_SPARK_HOME}/jars/*"),
        *(f"org.apache.spark.deploy.{main}", "--webui-port", "0", *arguments),
    ]
    # without the version of Scala, executors don't find the jars
    environ = [f"SPARK_HOME={_SPARK_HOME}", "SPARK_SCALA_VERSION=2.12"]
    return Child(["/usr/bin/env", *environ, *command], folder / f"{name}.log")


def _logged(child: Child, pattern: str) -> str:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and child.exit_code is None:
        if found := re.search(pattern, child.log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} was not logged:\n{child.tail()}")
