"""An engine that vacuums by itself publishes with the holds that the Metastore knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.deployment import Deployment
from support.hive_engine import HiveEngine
from support.metastore import on_both_versions
from tidegate.errors import ConfigError, TransientError
from tidegate.events import VacuumFinished
from tidegate.publisher import Publisher

VACUUM = {
    "location": "/wh/orders",
    "kind": "minor",
    "directories": ["delta_0000001_0000003"],
    "min_write_id": 1,
    "max_write_id": 3,
    "valid_write_ids": "sales.orders:3:9223372036854775807::",
}


@pytest.mark.kafka
@pytest.mark.slow
@on_both_versions
def test_the_locks_and_transactions_of_now_are_published(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, engine: HiveEngine
) -> None:
    db = engine.database()
    engine.table(db)
    engine.table(db, "stock")
    reader, elsewhere = engine.open_txn(), engine.open_txn()
    own, held = engine.lock(db, "orders"), engine.lock(db, "orders", txn=reader)
    engine.lock(db, "stock", txn=elsewhere)
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as deployment:
        snapshot = f"{db}.orders:3:9223372036854775807::"
        deployment.publisher().vacuum_finished(
            **(VACUUM | {"valid_write_ids": snapshot}),  # type: ignore[arg-type]
            table=f"hive.{db}.orders",
            own_lock_id=own,
            metastore=engine.settings.uri,
        )
        [found] = deployment.events("vacuums")

    assert isinstance(found, VacuumFinished)
    assert {lock.lock_id for lock in found.locks} == {own, held}
    assert {reader, elsewhere} <= set(found.open_transactions)
    engine.commit(reader)
    engine.commit(elsewhere)


def test_a_metastore_that_does_not_answer_and_another_catalog_publish_nothing() -> None:
    nowhere = "thrift://127.0.0.1:1"
    with Publisher("127.0.0.1:1", source="test") as publisher:
        with pytest.raises(TransientError, match="did not answer show_locks"):
            publisher.vacuum_finished(
                **VACUUM,  # type: ignore[arg-type]
                table="hive.sales.orders",
                own_lock_id=1,
                metastore=nowhere,
            )
        with pytest.raises(ConfigError, match="not in the Metastore's catalog hive"):
            publisher.vacuum_finished(
                **VACUUM,  # type: ignore[arg-type]
                table="lake.sales.orders",
                own_lock_id=1,
                metastore=nowhere,
            )
