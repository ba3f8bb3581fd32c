"""The demo's upstream writer of Hudi tables: real Hudi, through PySpark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tidegate.hudi_reader.table import load_table
from tidegate.local.embedded import resolve
from tidegate.storage import Storage

Row = tuple[int, str, float, int]
"""The columns `order_id`, `region`, `amount`, `version`."""
COLUMNS: Final = ("order_id", "region", "amount", "version")
_HUDI: Final[Mapping[str, str]] = {
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.metadata.enable": "false",
}


def hudi_session(folder: Path) -> SparkSession:
    """Start a small Spark session with Hudi's bundle; Spark keeps its own files in `folder`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    (jar,) = resolve("hudi")
    conf = {
        "spark.master": "local[2]",
        "spark.app.name": "demo-upstream-writer",
        "spark.driver.memory": "768m",
        "spark.driver.extraClassPath": str(jar),
        # Hudi measures objects by attaching to its own JVM, and warns on the screen without these.
        "spark.driver.extraJavaOptions": "-Djdk.attach.allowAttachSelf=true"
        " -Djol.skipHotspotSAAttach=true",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.Builder()
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@dataclass(frozen=True, slots=True)
class UpstreamTable:
    """A copy-on-write Hudi table, partitioned by region."""

    session: SparkSession
    name: str
    location: Path

    @property
    def identity(self) -> str:
        """The table's name in events."""
        return f"lake.shop.{self.name}"

    def upsert(self, rows: Iterable[Row]) -> str:
        """Write rows; return the commit's instant."""
        frame = self.session.createDataFrame(list(rows), list(COLUMNS))
        options = {**_HUDI, "hoodie.table.name": self.name}
        frame.write.format("hudi").options(**options).mode("append").save(str(self.location))
        timeline = load_table(Storage(), str(self.location)).timeline
        return max(instant.timestamp for instant in timeline.completed_writes)

    def rows(self) -> list[Row]:
        """All rows as real Hudi reads them, sorted."""
        frame = self._read().select(*COLUMNS)
        return sorted(
            (int(row[0]), str(row[1]), float(row[2]), int(row[3])) for row in frame.collect()
        )

    def savepoints(self) -> list[str]:
        """The savepoints that Hudi's own procedure lists."""
        listed = self.session.sql(f"CALL show_savepoints(path => '{self.location}')")
        return [str(row[0]) for row in listed.collect()]

    def _read(self) -> DataFrame:
        return self.session.read.format("hudi").load(str(self.location))
