"""Hive 3.1.3's own Worker compacts in the Metastore; the bridge recognises what it made."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from support.acid import names_in
from support.acid_orc import AcidTable, _Key
from support.embedded_metastore import HIVE_3
from support.hive_engine import HiveEngine
from support.metastore import own_metastore
from support.waiting import wait_for
from support.watched_bridge import Queued, acid_table
from tidegate.events import DirectoriesCleaned, VacuumFinished, VacuumKind
from tidegate.hive_metastore import MetastoreClient

pytestmark = [pytest.mark.slow, pytest.mark.judge, pytest.mark.full]
MINOR, MAJOR = 1, 2
WORKER = {"metastore.compactor.worker.threads": "1"}


def compacted(engine: HiveEngine, db: str, queued: Queued, kind: int) -> VacuumFinished:
    """Let the Worker do it; what the bridge publishes of it."""
    before = len(queued.vacuums(db))
    request = engine.types.CompactionRequest(db, "orders", None, kind, getpass.getuser())
    wanted = engine.call("compact2", request).id

    def ready() -> bool:
        with MetastoreClient(engine.settings) as client:
            found = client.queued(wanted)
        assert found is not None
        assert found.state in {"initiated", "working", "ready for cleaning"}, found
        return found.state == "ready for cleaning"

    wait_for("the Worker", ready)
    [event] = queued.vacuums(db)[before:]
    return event


def test_what_hives_worker_makes_is_recognised_and_cleaned(tmp_path: Path) -> None:
    with own_metastore(tmp_path / "metastore", WORKER, version=HIVE_3) as metastore:
        engine = HiveEngine(metastore)
        queued = Queued(engine)
        db, location = acid_table(engine)
        table = AcidTable(location, {"id": "int"})
        for number in range(3):
            table.insert(engine.write(db, "orders"), [(number,)])
        table.delete(engine.write(db, "orders"), [_Key(2, 1 << 29, 0)])

        def rows() -> list[object]:
            with MetastoreClient(engine.settings) as client:
                valid = client.write_ids(db, "orders", client.transactions().valid())
            return sorted(row[0] for row in table.read(valid).values())

        assert rows() == [0, 2]
        written = names_in(location)

        minor = compacted(engine, db, queued, MINOR)
        assert minor.directories == ("delete_delta_0000001_0000004", "delta_0000001_0000004")
        assert {*names_in(location)} == {*written, *minor.directories}
        assert isinstance(queued.clean(minor), DirectoriesCleaned)
        assert names_in(location) == [*minor.directories]
        assert rows() == [0, 2]

        table.insert(engine.write(db, "orders"), [(7,)])
        major = compacted(engine, db, queued, MAJOR)
        assert (major.kind, major.directories) == (VacuumKind.MAJOR, ("base_0000005",))
        assert isinstance(queued.clean(major), DirectoriesCleaned)
        assert names_in(location) == ["base_0000005"]
        assert rows() == [0, 2, 7]
        queued.bridge.close()
        engine.close()
