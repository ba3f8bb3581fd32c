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

    from support.hudi_records import RealHudi

Row = tuple[int, str, int, str]
_LAYOUT_TWO: Final = 8


def rows(ids: range, tag: str, ts: int) -> list[Row]:
    """Rows in the partitions p0 and p1."""
    return [(i, f"p{i % 2}", ts, tag) for i in ids]


@dataclass(frozen=True)
class RealTable:
    """A table of real Hudi, partitioned by p. Nothing is compacted unless a write says so."""

    hudi: RealHudi
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

        def live(spark: SparkSession) -> None:
            frame = through(spark.createDataFrame(data, "id long, p string, ts long, v string"))
            frame.write.format("hudi").options(**options).mode("append").save(self.location)

        self.hudi.ask(self.path, f"write {data} {options}", live)

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
        empty = self.hudi.session().createDataFrame([], "id long, p string, ts long, v string")
        empty.write.format("hudi").options(**options).mode("overwrite").save(self.location)

    @property
    def table_type(self) -> str:
        return "MERGE_ON_READ" if self.merge_on_read else "COPY_ON_WRITE"

    def read(
        self,
        query: str = "snapshot",
        more: Mapping[str, str] = MappingProxyType({}),
        where: str = "true",
    ) -> list[Row]:
        """Rows that a new reader sees, `snapshot` or `read_optimized` (base files alone).

        `more` are further options of Hudi's reader, `where` is a condition.
        """
        options = {"hoodie.datasource.query.type": query, **more}

        def live(spark: SparkSession) -> list[Row]:
            frame = spark.read.format("hudi").options(**options).load(self.location)
            found = frame.where(where).select("id", "p", "ts", "v").collect()
            return sorted((r["id"], r["p"], r["ts"], r["v"]) for r in found)

        return [tuple(row) for row in self.hudi.ask(self.path, f"read {options} {where}", live)]

    def call(
        self, procedure: str, more: Mapping[str, str] = MappingProxyType({}), **arguments: str
    ) -> list[list[object]]:
        """Call one of Hudi's procedures on this table, without upgrading it.

        `more` are further settings of the session.
        """
        settings = self._versions()
        if self.version < _LAYOUT_TWO:
            # its restore fails on a metadata table of layout 1 that has no compaction before
            settings["hoodie.metadata.enable"] = "false"
        settings |= more

        def live(spark: SparkSession) -> list[list[object]]:
            for key, value in settings.items():
                spark.conf.set(key, value)
            given = "".join(f", {key} => '{value}'" for key, value in arguments.items())
            try:
                result = spark.sql(f"call {procedure}(path => '{self.location}'{given})")
                return [list(row) for row in result.collect()]
            finally:
                for key in settings:
                    spark.conf.unset(key)

        asked = f"call {procedure} {arguments} {settings}"
        found: list[list[object]] = self.hudi.ask(self.path, asked, live)
        return found

    def savepoints(self) -> list[object]:
        """What `show_savepoints` lists."""
        return [row[0] for row in self.call("show_savepoints")]

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
