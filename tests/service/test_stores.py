"""Roots on stores that were never tested are refused unless the risk is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.samples import memory_bus
from tidegate.cleaning.second_source import MetastoreSource, NoSource, Quarantine
from tidegate.errors import ConfigError
from tidegate.service.assembly import assemble, second_source, table_work
from tidegate.service.catalogue import EXECUTORS
from tidegate.service.settings import Settings
from tidegate.service.stores import untested


def settings(*roots: str, allowed: bool = False, **cleaning: object) -> Settings:
    warehouse = {"roots": list(roots), "allow_untested_stores": allowed}
    return Settings.model_validate({"warehouse": warehouse, "cleaning": cleaning})


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("root", ["s3://lake/tables", "gs://lake/tables"])
def test_no_executor_starts_on_a_store_that_was_never_tested(name: str, root: str) -> None:
    with pytest.raises(ConfigError, match=rf"{root}\. Known faults: .*allow_untested_stores"):
        assemble(name, settings("/lake", root), memory_bus(partitions=1))


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("protocol", ["hdfs", "HDFS", "viewfs", "webhdfs", "swebhdfs"])
def test_no_executor_starts_on_hdfs_also_with_the_risk_accepted(name: str, protocol: str) -> None:
    """The client removes directories of another cluster, and of other names than it was given."""
    root = f"{protocol}://name/lake"
    accepted = settings("/lake", root, allowed=True, after_expiry="delete")
    with pytest.raises(ConfigError, match=rf"on HDFS: {root}\. They are refused, also with allow"):
        assemble(name, accepted, memory_bus(partitions=1))


def test_with_the_risk_accepted_it_starts() -> None:
    bus = memory_bus(partitions=1)
    cleaning = {"after_expiry": "delete", "confirm_with": "nothing"}
    accepted = settings("memory://lake/x", allowed=True, **cleaning)
    loop = assemble("cleaner", accepted, bus)
    loop.close()


def test_a_cleaner_on_an_object_store_without_a_metastore_starts_only_if_that_is_accepted() -> None:
    bus = memory_bus(partitions=1)
    unsaid = settings("memory://lake/x", allowed=True, after_expiry="delete")
    with pytest.raises(ConfigError, match="nothing would confirm what the"):
        assemble("cleaner", unsaid, bus)


def test_what_confirms_a_removal_is_the_metastore_where_there_is_one_else_quarantine() -> None:
    with_one = Settings.model_validate({"bridge": {"metastore": {"uri": "thrift://hms:9083"}}})
    believed = {"cleaning": {"confirm_with": "nothing"}}

    assert isinstance(second_source(with_one), MetastoreSource)
    assert isinstance(second_source(settings("/lake")), Quarantine)
    assert isinstance(second_source(Settings.model_validate(believed)), NoSource)
    with pytest.raises(ConfigError, match="none is configured: set uri"):
        second_source(settings("/lake", confirm_with="metastore"))


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
    cleaning: dict[str, object],
) -> None:
    bus = memory_bus(partitions=1)
    with pytest.raises(ConfigError, match=r"no atomic rename: memory://lake/x\."):
        assemble("cleaner", settings("memory://lake/x", "/lake", allowed=True, **cleaning), bus)


def test_a_local_root_needs_no_setting(tmp_path: Path) -> None:
    table_work(settings(str(tmp_path), f"file://{tmp_path}"))

    assert untested([str(tmp_path), "s3://a/b"]) == ["s3://a/b"]


def test_no_executor_starts_on_a_store_whose_client_is_not_installed() -> None:
    """Of these none is among the extras, so this holds in every development environment."""
    for root, library in (("gs://lake/x", "gcsfs"), ("abfs://lake/x", "adlfs")):
        with pytest.raises(ConfigError, match=rf"warehouse root {root}: .*nstall {library}"):
            table_work(settings(root, allowed=True))


def test_a_root_of_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="warehouse root nothing://x/y: Protocol not known"):
        table_work(settings("nothing://x/y", allowed=True))
