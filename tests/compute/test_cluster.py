"""Work on a real Spark cluster, whose nodes have nothing of this project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import fsspec
import pytest

from support.spark_cluster import bare_python, cluster, kill
from tidegate.cli.setup.services import spark_archive

pytestmark = [pytest.mark.spark, pytest.mark.full]
# `spark.pyspark.python` is stronger, as it is for Spark
_ENVIRONMENT = os.environ | {"PYSPARK_PYTHON": sys.executable}
# in a process of its own: a JVM is started once a process, and the other tests have theirs
_DRIVER = """
import json, sys, time
from functools import partial
from pathlib import Path
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.removal import remove_directories
from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import lazy_session
from tidegate.errors import TidegateError
from tidegate.hudi_reader.partitions import list_partitions
from tidegate.storage import Storage
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

conf, root = json.loads(sys.argv[1]), Path(sys.argv[2])
spark = SparkMap(lazy_session(conf), deadline=120)

def report(name, work):
    try:
        result = work()
    except TidegateError as error:
        result = [type(error).__name__, str(error)]
    print(json.dumps({"name": name, "result": result}), flush=True)

def slowly(number):
    time.sleep(0.5)
    return number

lake = root / "lake"
for number in range(20):
    partition = lake / f"p{number}"
    partition.mkdir(parents=True)
    (partition / ".hoodie_partition_metadata").touch()
    (partition / "a.parquet").write_text("a")
warehouse = Warehouse(WarehouseRoots.of(str(root)))
report("listed", lambda: len(list_partitions(warehouse, str(lake), spark)))
files = {str(lake / f"p{number}"): ["a.parquet"] for number in range(20)}
remove = partial(warehouse.remove_names, names=["a.parquet"])
report("removed", lambda: sum(spark.map(remove, list(files))))
deltas = [ListedDirectory(f"delta_000000{n}_000000{n}", str(lake)) for n in range(1, 9)]
for delta in deltas:
    Path(delta.path).mkdir()
failed = []
clean = partial(remove_directories, warehouse, [deltas], (), spark, failed)
report("cleaned", lambda: [len(gone) for gone in clean()] + failed)
report("left", lambda: [delta.name for delta in deltas if Path(delta.path).exists()])
report("a store", lambda: spark.map(Storage().list, ["s3://a/b", "s3://a/c"]))
print(json.dumps({"name": "kill one", "result": None}), flush=True)
report("one killed", lambda: spark.map(slowly, list(range(40))))
print(json.dumps({"name": "kill the other", "result": None}), flush=True)
sys.stdin.readline()
report("none left", lambda: SparkMap(spark.session, deadline=10).map(abs, [-1, -2]))
"""
_ON_A_STORE = """
import json, sys
from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import lazy_session
from tidegate.storage import NotFound, Storage
try:
    SparkMap(lazy_session(json.loads(sys.argv[1])), deadline=120).map(
        Storage().list, ["memory://lake/a", "memory://lake/b"]
    )
except NotFound as error:
    print(type(error).__name__, error)
"""
_FOREIGN = """
import json, sys
from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import lazy_session
from tidegate.errors import TidegateError
try:
    print(SparkMap(lazy_session(json.loads(sys.argv[1])), deadline=120).map(abs, [-1, -2]))
except TidegateError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One driver's results, by step; a worker is killed half way through a job, then the other."""
    folder = tmp_path_factory.mktemp("cluster")
    found: dict[str, Any] = {}
    with cluster(folder) as running:
        driver = subprocess.Popen(
            [sys.executable, "-c", _DRIVER, json.dumps(running.conf), str(folder)],
            env=_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert driver.stdout is not None
        assert driver.stdin is not None
        for line in driver.stdout:
            step = json.loads(line)
            found[step["name"]] = step["result"]
            if step["name"] == "kill one":
                threading.Timer(3.0, kill, [running.workers[0]]).start()
            if step["name"] == "kill the other":
                kill(running.workers[1])
                print(file=driver.stdin, flush=True)
        found["exit code"] = driver.wait(60)
        driver.stdin.close()
        driver.stdout.close()
    return found


def test_listings_and_removals_run_on_executors_without_the_project(
    results: dict[str, Any],
) -> None:
    assert results["listed"] == 20
    assert results["removed"] == 20
    assert results["cleaned"] == [0]
    assert results["left"] == []


def test_a_store_needs_its_client_on_the_executors(results: dict[str, Any]) -> None:
    kind, message = results["a store"]

    assert kind == "ConfigError"
    assert "No module named 'boto3'" in message


def test_a_worker_that_is_killed_half_way_costs_no_result(results: dict[str, Any]) -> None:
    assert results["one killed"] == list(range(40))


def test_without_workers_a_job_ends_at_its_deadline(results: dict[str, Any]) -> None:
    assert results["none left"][0] == "TransientError"
    assert "did not end within 10 s" in results["none left"][1]
    assert results["exit code"] == 0


def local_cluster(python: str, **more: str) -> str:
    """The settings of one worker on this machine, as JSON."""
    return json.dumps(
        {
            "spark.master": "local-cluster[1,1,512]",
            "spark.authenticate": "true",
            "spark.authenticate.secret": "of-this-test",
            "spark.pyspark.python": python,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            **more,
        }
    )


def run_driver(script: str, conf: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, conf],
        env=_ENVIRONMENT | {"SPARK_SCALA_VERSION": "2.12"},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return done.stdout


def test_an_archive_of_the_environment_brings_a_store_s_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On executors whose Python has no package, a store is asked: it has no such directory."""
    bare_python(tmp_path / "environment")
    [packages] = (tmp_path / "environment").glob("lib/*/site-packages")
    shutil.copytree(Path(fsspec.__file__).parent, packages / "fsspec")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    spark_archive(tmp_path / "tidegate.tar.gz")
    printed = tomllib.loads(capsys.readouterr().out)["spark"]["conf"]

    done = run_driver(_ON_A_STORE, local_cluster("", **printed))

    assert done.strip() == "NotFound memory://lake/a"


def test_workers_of_another_python_are_a_permanent_error_that_names_both(tmp_path: Path) -> None:
    python = bare_python(tmp_path / "bare")
    [packages] = (tmp_path / "bare").glob("lib/*/site-packages")
    (packages / "sitecustomize.py").write_text(
        "import sys\nfrom collections import namedtuple\n"
        "kind = namedtuple('kind', 'major minor micro releaselevel serial')\n"
        "sys.version_info = kind(3, 99, 0, 'final', 0)\n"
    )
    done = run_driver(_FOREIGN, local_cluster(str(python)))

    assert "PermanentError" in done
    assert "different version (3, 99)" in done
