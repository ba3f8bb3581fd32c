"""Roots are refused where no table can be changed, or where the bucket or the client is missing."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.acid import release
from support.s3 import Request, S3Server
from support.samples import memory_bus
from support.versioned import BUCKET as KEPT
from support.versioned import kept_bucket
from tidegate.cleaning.confirmation import Proof
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan
from tidegate.errors import ConfigError, TransientError
from tidegate.service.assembly import assemble, cleaning_settings, second_source, table_work
from tidegate.service.catalogue import EXECUTORS
from tidegate.service.settings import Settings
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

HERE = str(Path(__file__).parent)
LAKE = Warehouse(WarehouseRoots.of("/lake"))


def settings(*roots: str, stores: dict[str, Any] | None = None, **cleaning: object) -> Settings:
    warehouse = {"roots": list(roots), "stores": stores or {}}
    return Settings.model_validate({"warehouse": warehouse, "cleaning": cleaning})


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("root", ["webhdfs://lake/x", "az://x/y", "nothing://x/y"])
def test_no_executor_starts_where_no_table_can_be_changed(name: str, root: str) -> None:
    with pytest.raises(ConfigError, match=rf"changes no table: {root}\. .*GCS, Azure and HDFS"):
        assemble(name, settings("/lake", root), memory_bus(partitions=1))


def test_a_cleaner_starts_on_s3(s3: S3Server) -> None:
    cleaning = {"after_expiry": "delete", "confirm_with": "nothing"}
    accepted = settings("s3a://lake/x", stores=s3.settings("lake"), **cleaning)
    loop = assemble("cleaner", accepted, memory_bus(partitions=1))
    loop.close()


@pytest.mark.parametrize("name", EXECUTORS)
def test_no_executor_starts_on_a_bucket_that_does_not_exist(name: str, s3: S3Server) -> None:
    gone = settings(HERE, "s3://gone/x", stores=s3.settings("gone"), after_expiry="delete")
    with pytest.raises(ConfigError, match=r"warehouse root s3://gone/x: .*: NoSuchBucket"):
        assemble(name, gone, memory_bus(partitions=1))


@pytest.mark.parametrize("ignored", [(), ("HTTP_IF_NONE_MATCH",), ("HTTP_IF_MATCH",)])
def test_a_restorer_holds_no_lock_where_conditions_of_a_write_are_ignored(
    ignored: tuple[str, ...], s3: S3Server
) -> None:
    given = settings("s3://lake/x", stores=s3.settings("lake"))
    held = given.restores.model_copy(update={"hold_lock": True})
    s3.ignores = ignored
    expected = pytest.raises(ConfigError, match="s3://lake/x: this server ignores the conditions")
    with expected if ignored else nullcontext():
        loop = assemble(
            "restorer", given.model_copy(update={"restores": held}), memory_bus(partitions=1)
        )
        loop.close()
    assert s3.all_keys() == []


@pytest.mark.parametrize("name", ["savepoint-writer", "restorer", "cleaner"])
def test_no_worker_starts_with_a_directory_that_does_not_exist(name: str, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "file").touch()
    for wrong in ("lke", "file"):
        bus = memory_bus(partitions=1)
        with pytest.raises(ConfigError, match=f"warehouse root {tmp_path}/{wrong}"):
            assemble(name, settings(f"{tmp_path}/lake", f"{tmp_path}/{wrong}"), bus)
    assemble(name, settings(f"{tmp_path}/lake"), memory_bus(partitions=1)).close()


def test_an_executor_starts_while_a_store_is_away(s3: S3Server) -> None:
    s3.answers = lambda _: "503 Slow Down"
    table_work(settings("s3://lake/x", stores=s3.settings("lake")))


def test_no_executor_starts_on_s3_without_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tidegate.storage.s3", "obstore"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in ("s3_files", "s3_versions"):
        monkeypatch.delitem(sys.modules, f"tidegate.tables.warehouse.{module}", raising=False)
    with pytest.raises(ConfigError, match=r"warehouse root s3://lake/x: .*tidegate\[s3\]"):
        table_work(settings("s3://lake/x"))


@pytest.mark.parametrize(
    ("root", "module", "extra"),
    [("gs://lake/x", "gcs", "gcs"), ("wasb://lake@x.blob.core.windows.net/x", "azure", "azure")],
)
def test_no_executor_starts_on_a_cloud_without_its_client(
    root: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (f"tidegate.storage.{module}", "google.auth", "azure.core"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, f"tidegate.tables.warehouse.{module}_files", raising=False)
    with pytest.raises(ConfigError, match=rf"warehouse root .*tidegate\[{extra}\]"):
        table_work(settings(root))


def test_no_executor_starts_on_a_container_without_its_account() -> None:
    with pytest.raises(ConfigError, match="named abfss://container@account"):
        table_work(settings("abfss://lake/x"))


def test_clouds_take_an_endpoint_and_a_deadline_under_any_spelling_of_the_place() -> None:
    place = "wasbs://lake@x.blob.core.windows.net"
    found = settings(f"{place}/t", stores={place: {"endpoint": "http://127.0.0.1/x"}})
    canonical = "abfss://lake@x.dfs.core.windows.net"
    assert found.warehouse.options == {canonical: {"endpoint": "http://127.0.0.1/x"}}
    with pytest.raises(
        ValueError, match="gs://lake takes endpoint and max_concurrency and timeout only"
    ):
        settings("gs://lake/x", stores={"gs://lake": {"profile": "p"}})


def test_no_executor_starts_on_hdfs_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tidegate.storage.hdfs", "hdfs_native"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "tidegate.tables.warehouse.hdfs_files", raising=False)
    with pytest.raises(ConfigError, match=r"warehouse root hdfs://lake/x: .*tidegate\[hdfs\]"):
        table_work(settings("hdfs://lake/x"))


@pytest.mark.parametrize("root", ["hdfs:///x", "hdfs://a#b/x"])
def test_no_executor_starts_on_a_cluster_without_a_name(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(ConfigError, match=rf"warehouse root {root}: .*not the name of a cluster"):
        table_work(settings(root))


def test_a_cleaner_that_quarantines_starts_on_hdfs_even_while_its_namenode_is_away() -> None:
    away = settings("hdfs://127.0.0.1:1/x", HERE, mode="quarantine")
    assemble("cleaner", away, memory_bus(partitions=1)).close()


def test_hdfs_takes_a_deadline_and_nothing_of_s3() -> None:
    found = settings("hdfs://nn/x", stores={"hdfs://nn:8020": {"timeout": 3, "max_concurrency": 2}})
    assert found.warehouse.options == {"hdfs://nn": {"timeout": 3.0, "max_concurrency": 2}}
    with pytest.raises(ValueError, match="hdfs://nn takes max_concurrency and timeout only"):
        settings("hdfs://nn/x", stores={"hdfs://nn": {"endpoint": "http://nn"}})


def test_a_cleaner_on_an_object_store_without_a_metastore_starts_only_if_that_is_accepted(
    s3: S3Server,
) -> None:
    bus = memory_bus(partitions=1)
    unsaid = settings("s3://lake/x", stores=s3.settings("lake"), after_expiry="delete")
    with pytest.raises(ConfigError, match="nothing would confirm what the"):
        assemble("cleaner", unsaid, bus)


def test_what_confirms_a_removal_is_the_metastore_where_there_is_one_else_quarantine() -> None:
    with_one = Settings.model_validate({"bridge": {"metastore": {"uri": "thrift://hms:9083"}}})
    believed = {"cleaning": {"confirm_with": "nothing"}}

    plan = CleaningPlan((ListedDirectory("delta_0000001_0000001", "/lake/t"),))

    def proof(chosen: Settings) -> Proof:
        return second_source(chosen, LAKE).confirm(release("/lake/t"), plan)

    assert proof(settings("/lake")) is Proof.UNPROVEN
    assert proof(Settings.model_validate(believed)) is Proof.BELIEVED
    with pytest.raises(TransientError, match="hms:9083"):
        proof(with_one)
    with pytest.raises(ConfigError, match="none is configured: set uri"):
        second_source(settings("/lake", confirm_with="metastore"), LAKE)


@pytest.mark.parametrize(
    "cleaning",
    [
        {},
        {"after_expiry": "delete", "mode": "quarantine"},
        {"after_expiry": "delete", "rules": [{"tables": "a.*", "mode": "quarantine"}]},
    ],
    ids=["after a lock that expired", "all tables", "some tables"],
)
def test_no_cleaner_that_may_quarantine_starts_on_an_object_store(
    cleaning: dict[str, object], s3: S3Server
) -> None:
    bus, stores = memory_bus(partitions=1), s3.settings("lake")
    with pytest.raises(ConfigError, match=r"not on S3 with versions .*: s3://lake/x\."):
        assemble("cleaner", settings("s3://lake/x", HERE, stores=stores, **cleaning), bus)


@pytest.mark.parametrize("root", ["gs://lake/x", "abfss://lake@x.dfs.core.windows.net/x"])
def test_where_nothing_is_ever_quarantined_the_start_names_the_store_s_own_remedy(
    root: str,
) -> None:
    with pytest.raises(ConfigError, match=rf"{root}\. .*on the bucket's own soft delete or"):
        cleaning_settings(settings(root), Warehouse(WarehouseRoots.of(root)))
    believed = settings(root, after_expiry="delete", confirm_with="nothing")
    assert not cleaning_settings(believed, Warehouse(WarehouseRoots.of(root))).may_quarantine


def denying(query: str, request: Request) -> str | None:
    return "403 Access Denied" if query in request[1] else None


def test_a_quarantining_cleaner_starts_on_a_bucket_that_keeps_versions_for_long_enough() -> None:
    with kept_bucket("moto") as kept:
        bus, stores = memory_bus(partitions=1), kept.server.settings(KEPT)
        chosen = settings(f"s3://{KEPT}/wh", stores=stores)
        assemble("cleaner", chosen, bus).close()
        short = {
            "ID": "two days",
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 2},
        }
        kept.client.put_bucket_lifecycle_configuration(
            Bucket=KEPT, LifecycleConfiguration={"Rules": [short]}
        )
        try:
            for cleaning in ({}, {"after_expiry": "delete"}):  # what nothing confirms
                with pytest.raises(ConfigError, match=r"root s3://kept/wh: .*: two days\."):
                    assemble("cleaner", settings(f"s3://{KEPT}/wh", stores=stores, **cleaning), bus)
            for accepted in ({"keep": "2d"}, {"after_expiry": "delete", "confirm_with": "nothing"}):
                assemble(
                    "cleaner", settings(f"s3://{KEPT}/wh", stores=stores, **accepted), bus
                ).close()
        finally:
            kept.client.delete_bucket_lifecycle(Bucket=KEPT)
        for right in ("Versioning", "Lifecycle"):
            kept.server.answers = partial(denying, right.lower())
            with pytest.raises(ConfigError, match=f"s3:Get.*{right}"):
                assemble("cleaner", chosen, bus)


def test_a_local_root_needs_no_setting(tmp_path: Path) -> None:
    table_work(settings(str(tmp_path), f"file://{tmp_path}"))
