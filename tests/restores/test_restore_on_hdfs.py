"""Tables that real Hudi writes to a real HDFS: ours savepoint and restore, real Hudi judges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.hdfs import Cluster, Hdfs
from support.hudi_records import RealHudi
from support.judged import restore, savepoint, timeline_of
from support.real_hudi import RealTable, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow, pytest.mark.full]


@dataclass(frozen=True)
class OnHdfs(RealTable):
    """A table on a cluster, at its path there."""

    cluster: Cluster | None = None

    @property
    def location(self) -> str:
        assert self.cluster is not None
        return f"{self.cluster.address}{self.path}"


@pytest.mark.parametrize("merge_on_read", [False, True], ids=["copy on write", "merge on read"])
@pytest.mark.parametrize("version", [6, 9])
def test_real_hudi_finds_the_rows_of_the_savepoint_and_writes_on(
    hdfs: Hdfs, spark: SparkSession, version: int, *, merge_on_read: bool
) -> None:
    hudi, lake = RealHudi(Path("/wh"), lambda: spark), hdfs.lake
    table = OnHdfs(
        hudi, Path("/wh/orders"), version, metadata_table=True, merge_on_read=merge_on_read,
        cluster=lake,
    )  # fmt: skip
    table.write(rows(range(10), "first", 1), "bulk_insert")
    table.write(rows(range(5, 12), "second", 2))
    expected, before = table.read(), timeline_of(table)
    created = savepoint(table, None, ThreadMap(), lake.warehouse())
    assert isinstance(created, SavepointCreated), created
    table.write(rows(range(20), "bad", 3))
    table.write(rows(range(30, 40), "worse", 4))
    assert table.read() != expected

    *_, restored = restore(table, created.instant, ThreadMap(), lake.warehouse())
    assert isinstance(restored, RestoreCompleted), restored
    assert table.read() == expected
    assert table.read(more={"hoodie.metadata.enable": "false"}) == expected
    assert before < timeline_of(table)
    table.write(rows(range(3), "after", 9))
    assert len(table.read()) == len(expected)
    assert table.read()[0][3] == "after"
