"""One Spark session with real Hudi, for all tests that ask it for its verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.jar_locks import resolve
from tidegate.compute.spark import use_compatible_java

HUDI = Path(__file__).with_name("hudi.json")
"""The lock of Hudi's jar."""


@contextmanager
def hudi_session(folder: Path, memory: str = "1g") -> Generator[SparkSession]:
    """A small local session. The jar is on the class path: Hudi's own clean fails with it in
    `spark.jars`.
    """
    (jar,) = resolve(HUDI)
    use_compatible_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # the workers must be this very Python, with this very tidegate
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.extraClassPath": str(jar),
        # compiling, of code and of queries, takes longer than these few rows
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djol.skipHotspotSAAttach=true"
            " -Djdk.attach.allowAttachSelf=true"
        ),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(folder),
    }
    builder = SparkSession.builder.master("local[2]").appName("tidegate-tests")
    session = builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests."""
    with hudi_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
