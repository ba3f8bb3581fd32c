"""README.md from "Ten minutes to your own table" on, typed by a reader in an empty directory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.acid_orc import AcidTable
from support.blocks import Reader, blocks_of, section
from support.kafka import create_topic
from support.spark import HUDI
from tidegate.embedded.jars import resolve
from tidegate.embedded.process import free_ports
from tidegate.events import LockHold, LockType, ReleaseReason, VacuumKind
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.publisher import Publisher

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PUBLISH = (ROOT / "docs" / "publish.md").read_text("utf-8")
_LOCAL_JARS = """\
<ivysettings><settings defaultResolver="cached"/><resolvers><filesystem name="cached">
<artifact pattern="{folder}/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>
"""
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def port() -> int:
    return free_ports()[0]


@pytest.fixture
def reader(tmp_path: Path, port: int) -> Iterator[Reader]:
    """In an empty directory, with this Tidegate on the path and a port of its own."""
    folder = tmp_path / "try"
    folder.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    mine = {key: value for key, value in os.environ.items() if "TIDEGATE" not in key}
    mine.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    env = mine | {"PATH": path, "SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    if "TIDEGATE_CACHE_DIR" in os.environ:
        env["TIDEGATE_CACHE_DIR"] = os.environ["TIDEGATE_CACHE_DIR"]
    typed = {
        "127.0.0.1:9092": f"127.0.0.1:{port}",
        "tidegate broker": f"tidegate broker --port {port}",
    }
    reader = Reader(folder, env, typed)
    yield reader
    reader.stop()


def spark_finds_hudi_in_the_cache(conf: Path) -> None:
    """What spark.jars.packages names is not downloaded again for every test."""
    [jar] = resolve(HUDI)
    settings = conf / "ivysettings.xml"
    settings.write_text(_LOCAL_JARS.format(folder=jar.parent), "utf-8")
    (conf / "spark-defaults.conf").write_text(
        f"spark.jars.ivySettings {settings}\nspark.jars.ivy {conf / 'ivy'}\n"
        "spark.driver.memory 1g\nspark.ui.enabled false\n",
        "utf-8",
    )


@pytest.mark.spark
@pytest.mark.judge
def test_a_new_user_publishes_a_commit_and_rolls_a_bad_one_back(
    reader: Reader, tmp_path: Path
) -> None:
    spark_finds_hudi_in_the_cache(tmp_path)

    reader.follow(section(README, "Ten minutes to your own table"))
    reader.follow(section(README, "A bad commit"))


def test_a_new_user_sees_a_vacuum_wait_and_puts_its_directories_back(
    reader: Reader, port: int
) -> None:
    quickstart = section(README, "Ten minutes to your own table")
    reader.follow(quickstart.partition("A Spark job")[0])
    location = reader.folder / "lake" / "visits"
    table = AcidTable(location, {"id": "bigint", "page": "string"})
    snapshot = ValidWriteIds.parse("sales.visits:3:9223372036854775807::")
    inserted = [table.insert(n, [(n, "home")]) for n in (1, 2, 3)]
    made = table.compact_minor(1, 3, snapshot)
    waits, undone = section(README, "A vacuum that waits").split("When Ana's lock")

    with Publisher(f"127.0.0.1:{port}", source="hive") as publisher:
        publisher.vacuum_finished(
            table="lake.sales.visits",
            location=str(location),
            kind=VacuumKind.MINOR,
            directories=made,
            min_write_id=1,
            max_write_id=3,
            valid_write_ids=str(snapshot),
            own_lock_id=41,
            locks=[
                LockHold(lock_id=41, owner="hive@compactor"),
                LockHold(lock_id=38, lock_type=LockType.SHARED_READ, owner="ana@notebook"),
            ],
        )
        released = partial(
            publisher.lock_released, table="lake.sales.visits", location=str(location)
        )
        released(lock_id=41)
        reader.run("until tidegate waiting | grep -q '1 of 2'; do sleep 0.2; done")
        reader.follow(waits)
        released(lock_id=38, reason=ReleaseReason.EXPIRED)
        reader.run("until tidegate outcomes | grep -q DirectoriesCleaned; do sleep 0.2; done")
        assert not (location / inserted[0]).exists()
        reader.follow(undone)

    assert all((location / name).exists() for name in inserted)


@pytest.mark.spark
@pytest.mark.judge
def test_the_pyspark_job_of_the_page_publishes_the_commit_that_it_wrote(
    reader: Reader, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    spark_finds_hudi_in_the_cache(tmp_path)
    create_topic(bootstrap_servers, f"{topic_prefix}.commits")
    page = section(PUBLISH, "Which instant did my job write?")
    [job] = [block.text for block in blocks_of(page.partition("### spark-submit")[0])]
    ours = f'"{bootstrap_servers}", prefix="{topic_prefix}"'
    (reader.folder / "orders.py").write_text(job.replace('"127.0.0.1:9092"', ours))

    printed = reader.run("python orders.py 2> spark.log")

    instant, operation = printed.split()[-2:]
    reader.env |= {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
        "TIDEGATE_TOPICS__PREFIX": topic_prefix,
    }
    latest = next(line for line in page.splitlines() if line.endswith("--instant latest"))
    reader.run(latest.replace("/lake/sales/orders", str(reader.folder / "lake/orders")))
    tail = "tidegate events tail --topic commits --no-follow --json"
    job_s, command_s = [json.loads(line) for line in reader.run(tail).splitlines()]
    assert job_s["event_id"] == command_s["event_id"]
    for event in (job_s["event"], command_s["event"]):
        assert (event["instant"], event["operation"]) == (instant, operation)
        assert (event["records_written"], event["files_written"]) == (100, 2)


def test_the_settings_have_eight_lines() -> None:
    quickstart = section(README, "Ten minutes to your own table")
    [toml] = [block.text for block in blocks_of(quickstart) if block.language == "toml"]

    assert len(toml.splitlines()) == 8
