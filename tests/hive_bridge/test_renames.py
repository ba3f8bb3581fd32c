"""A rename moves the locks of a table's readers to its new name; it ends none of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from support.metastore_model import vacuum
from tidegate.errors import MissingInMetastoreError
from tidegate.events import Event, LockReleased, ReleaseReason
from tidegate.hive_bridge import bridge
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.storage import Storage

READER = 7
PLACES: dict[str, str] = {}
"""Where the Metastore has its tables, by name."""


class OneReader(MetastoreClient):
    """A Metastore with an open transaction that has a lock on the table `sold`."""

    def call(self, name: str, *arguments: object) -> object:
        reader = SimpleNamespace(id=READER, state=1, lastHeartbeatTime=5)
        lock = {"lockid": 3, "dbname": "sales", "tablename": "sold", "partname": None, "type": 1}
        lock |= {"txnid": READER, "user": "ana", "hostname": "h", "acquiredat": 5}
        answers = {
            "get_config_value": "",
            "get_metastore_db_uuid": "uuid-1",
            "show_compact": SimpleNamespace(compacts=[]),
            "show_locks": SimpleNamespace(locks=[SimpleNamespace(**lock, lastheartbeat=0)]),
            "get_open_txns_info": SimpleNamespace(txn_high_water_mark=10, open_txns=[reader]),
        }
        return self.table_named(*arguments) if name == "get_table_req" else answers[name]

    def table_named(self, request: object) -> object:
        name = str(vars(request)["tblName"])
        if name not in PLACES:
            raise MissingInMetastoreError("the Metastore refuses get_table_req")
        storage = SimpleNamespace(location=PLACES[name])
        table = SimpleNamespace(dbName="sales", tableName=name, sd=storage, parameters={})
        return SimpleNamespace(table=table)


@pytest.mark.parametrize(
    ("places", "ends"),
    [
        pytest.param({"sold": "/wh/orders"}, False, id="renamed in its place"),
        pytest.param({"sold": "/wh/sold"}, False, id="renamed and moved"),
        pytest.param({"orders": "/wh/new", "sold": "/wh/orders"}, False, id="and created again"),
        pytest.param({"orders": "/wh/orders", "sold": "/wh/sold"}, True, id="two tables"),
    ],
)
def test_a_reader_of_another_table_ends_unless_its_lock_may_have_moved_with_a_rename(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    monkeypatch.setattr(bridge, "MetastoreClient", OneReader)
    monkeypatch.setattr(f"{__name__}.PLACES", places)
    settings = BridgeSettings(uri="thrift://127.0.0.1:1", readers_lock_at_once=True)
    published: list[Event] = []
    watching = bridge.MetastoreBridge(settings, published.extend, Storage(), Baseline())
    watching.take([vacuum(open_txns=[READER], own_transaction_id=None)])

    watching.look()
    watching.close()

    released = {e.transaction_id: e.reason for e in published if isinstance(e, LockReleased)}
    assert released == {None: ReleaseReason.EXPIRED} | (
        {READER: ReleaseReason.UNLOCKED} if ends else {}
    )
