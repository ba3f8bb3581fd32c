"""Tables that real Hudi writes, and what real Hudi says of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, str, int, str]
_LAYOUT_TWO: Final = 8


def rows(ids: range, tag: str, ts: int) -> list[Row]:
    """Rows in the partitions p0 and p1."""
    return [(i, f"p{i % 2}", ts, tag) for i in ids]


@dataclass(frozen=True)
class RealTable:
    """A table of real Hudi, partitioned by p. Nothing is compacted unless a write says so."""

    spark: SparkSession
    path: Path
    version: int
    metadata_table: bool
    partitioned: bool = True
    merge_on_read: bool = False

    @property
    def location(self) -> str:
        return str(self.path)

    def write(
        self,
        data: list[Row],
        operation: str = "upsert",
        more: Mapping[str, str] = MappingProxyType({}),
        through: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> None:
        """Write one commit; `more` are further options of Hudi. `through` may change the rows."""
        options = {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": operation,
            "hoodie.metadata.enable": str(self.metadata_table).lower(),
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.compact.inline": "false",
            "hoodie.datasource.write.table.type": self.table_type,
            **self._versions(),
            **more,
        }
        if self.partitioned:
            options["hoodie.datasource.write.partitionpath.field"] = "p"
        else:
            keys = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
            options["hoodie.datasource.write.keygenerator.class"] = keys
        frame = through(self.spark.createDataFrame(data, "id long, p string, ts long, v string"))
        frame.write.format("hudi").options(**options).mode("append").save(self.location)

    def bootstrap(self, source: Path) -> None:
        """Make the table over the Parquet files of another one, whose rows stay there."""
        options = {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.operation": "bootstrap",
            "hoodie.bootstrap.base.path": str(source),
            "hoodie.metadata.enable": "false",
        }
        empty = self.spark.createDataFrame([], "id long, p string, ts long, v string")
        empty.write.format("hudi").options(**options).mode("overwrite").save(self.location)

    @property
    def table_type(self) -> str:
        return "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE"

    def read(self, query: str = "snapshot") -> list[Row]:
        """All rows that a new reader sees, `snapshot` or `read_optimized` (base files alone)."""
        reader = self.spark.read.format("hudi").option("hoodie.datasource.query.type", query)
        frame = reader.load(self.location)
        found = frame.select("id", "p", "ts", "v").collect()
        return sorted((r["id"], r["p"], r["ts"], r["v"]) for r in found)

    def call(
        self,
        procedure: str,
        more: Mapping[str, str] = MappingProxyType({}),
        **arguments: str,
    ) -> list[list[object]]:
        """Call one of Hudi's procedures on this table, without upgrading it.

        `more` are further settings of the session.
        """
        settings = self._versions() | dict(more)
        if self.version < _LAYOUT_TWO:
            # its restore fails on a metadata table of layout 1 that has no compaction before
            settings["hoodie.metadata.enable"] = "false"
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        given = ", ".join(f"{key} => '{value}'" for key, value in arguments.items())
        try:
            result = self.spark.sql(f"call {procedure}(path => '{self.location}', {given})")
            return [list(row) for row in result.collect()]
        finally:
            for key in settings:
                self.spark.conf.unset(key)

    def savepoints(self) -> list[object]:
        """What `show_savepoints` lists."""
        shown = self.spark.sql(f"call show_savepoints(path => '{self.location}')")
        return [row[0] for row in shown.collect()]

    def copy(self, path: Path) -> RealTable:
        """A byte copy with its times: in layout 1 they are completion times."""
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", self.location, str(path)], check=True)
        return replace(self, path=path)

    def _versions(self) -> dict[str, str]:
        if self.version == 9:
            return {}
        return {
            "hoodie.write.table.version": str(self.version),
            "hoodie.write.auto.upgrade": "false",
        }
