"""How long a person waits for a command, on an embedded Kafka without events.

    .venv/bin/python benchmarks/startup.py [--rounds 5] [--json]

The best of several rounds, in seconds: of the processor, which other programs slow down least, and
of the clock. Bytecode is cached, as an installation has it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from report import Line, line, show

from tidegate.embedded.broker import EmbeddedBroker

WANTED = {"--version": 0.15, "--help": 0.15, "status": 0.4, "outcomes": 0.4, "waiting": 0.4}


def measured(command: str, rounds: int, env: dict[str, str]) -> tuple[float, float]:
    """The least seconds of the processor and of the clock."""
    spent, waited = list[float](), list[float]()
    for _ in range(rounds):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        program = [sys.executable, "-m", "tidegate.cli", command]
        subprocess.run(program, env=env, stdout=subprocess.DEVNULL, check=command != "status")
        waited.append(time.monotonic() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent), min(waited)


def lines(rounds: int) -> Iterator[Line]:
    """Measure every command."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "kafka") as kafka:
        env = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
        env |= {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        create = [sys.executable, "-m", "tidegate.cli", "topics", "create"]
        subprocess.run(create, env=env, stdout=subprocess.DEVNULL, check=True)
        for command, wanted in WANTED.items():
            measured(command, 1, env)
            spent, waited = measured(command, rounds, env)
            yield line(f"tidegate {command}: seconds of the processor", spent, wanted)
            yield line(f"tidegate {command}: seconds of the clock", waited)


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    show(lines(asked.rounds), as_json=asked.json)


if __name__ == "__main__":
    main()
