"""The Spark session: what it listens on, who may talk to it, and where its secrets are seen."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tidegate.compute.spark import SHIPPED, _packed, lazy_session
from tidegate.errors import ConfigError

HUSHED = "hush-hush"
# in a process of its own: a JVM is started once a process, and the other tests have theirs
_PROBE = """
import json, os, pathlib, socket, struct
from tidegate.compute.spark import lazy_session

conf = {"spark.hadoop.fs.s3a.secret.key": "hush-hush", "spark.driver.memory": "600m"}
session = lazy_session(conf)()
context = session.sparkContext
assert context.parallelize(range(4), 2).sum() == 6
pid = context._gateway.proc.pid
processes = [pid]
for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
    try:
        parent = int(path.read_text().rpartition(")")[2].split()[1])
    except OSError:
        continue
    if parent == pid:
        processes.append(int(path.parent.name))
inodes, lines = set(), []
for each in processes:
    lines.append(pathlib.Path(f"/proc/{each}/cmdline").read_bytes().decode().split(chr(0)))
    for fd in pathlib.Path(f"/proc/{each}/fd").iterdir():
        try:
            inodes.add(os.readlink(fd))
        except OSError:
            pass
addresses = set()
for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
    for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            raw = bytes.fromhex(fields[1].split(":")[0])
            words = [raw[at : at + 4][::-1] for at in range(0, len(raw), 4)]
            addresses.add(socket.inet_ntop(family, b"".join(words)))
kept = context.getConf().get("spark.hadoop.fs.s3a.secret.key")
print(json.dumps({"addresses": sorted(addresses), "lines": lines, "kept": kept}), flush=True)
session.stop()
"""


@pytest.fixture(scope="module")
def probe() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.spark
def test_a_local_session_listens_on_the_loopback_interface_only(probe: dict[str, Any]) -> None:
    assert set(probe["addresses"]) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert probe["addresses"]


@pytest.mark.spark
def test_a_secret_of_the_settings_is_not_on_any_command_line(probe: dict[str, Any]) -> None:
    assert HUSHED not in json.dumps(probe["lines"])
    assert probe["kept"] == HUSHED


@pytest.mark.spark
def test_what_the_jvm_needs_at_its_start_is_still_passed(probe: dict[str, Any]) -> None:
    assert any("-Xmx600m" in line for line in probe["lines"])


@pytest.mark.parametrize(
    "conf",
    [
        pytest.param({"spark.master": "spark://head:7077"}, id="a cluster"),
        pytest.param({"spark.master": "yarn", "spark.authenticate": "false"}, id="switched off"),
        pytest.param({"spark.driver.bindAddress": "192.0.2.2"}, id="local, but open to others"),
        pytest.param({"spark.driver.host": "10.0.0.7"}, id="local, under an outer name"),
    ],
)
def test_a_session_that_others_reach_without_a_secret_is_refused(conf: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"spark\.authenticate"):
        lazy_session(conf)


def test_a_master_and_a_connect_server_are_refused_together() -> None:
    with pytest.raises(ConfigError, match=r"both spark\.master and spark\.remote"):
        lazy_session({"spark.master": "local", "spark.remote": "sc://head:15002"})


def test_what_executors_run_needs_nothing_but_the_zip() -> None:
    """A Python without any package, as on the nodes of a cluster, can import all of it."""
    packed = str(_packed())
    script = (
        f"import sys; sys.path.insert(0, {packed!r})\n"
        f"for name in {SHIPPED!r}: __import__(name)\n"
        "found = {m for m in sys.modules.values() if getattr(m, '__file__', None)}\n"
        "print(all('site-packages' not in m.__file__ for m in found), sys.modules[name].__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )

    assert done.stdout.split() == ["True", f"{packed}/tidegate/compute/parallel_map.py"], (
        done.stderr
    )
    assert Path(packed).stat().st_size < 1_000_000


def test_the_import_contract_is_for_all_that_is_shipped() -> None:
    linter = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    contracts = linter["tool"]["importlinter"]["contracts"]
    [contract] = [found for found in contracts if found["id"] == "executors"]

    assert contract["source_modules"] == list(SHIPPED)
