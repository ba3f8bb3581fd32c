"""A warehouse on an HDFS that asks for Kerberos tickets, of a real KDC."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.hdfs import Cluster, running
from support.kerberos import REALM, Realm, realm
from tables.warehouse.conftest import Configure

pytestmark = [pytest.mark.full, pytest.mark.slow]


@dataclass(frozen=True)
class Secured:
    """A cluster and its realm."""

    lake: Cluster
    realm: Realm


@pytest.fixture(params=["authentication", "privacy"])
def secured(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    configure: Configure,
) -> Generator[Secured]:
    """Its user has no ticket yet. The parameter is how calls and blocks are protected."""
    with realm(tmp_path / "realm") as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        keytab, principal = str(made.keytab("hdfs/localhost")), f"hdfs/localhost@{REALM}"
        client = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": request.param,
            "dfs.data.transfer.protection": request.param,
        }
        server = {
            "hadoop.security.authorization": "true",
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",
            "dfs.web.authentication.kerberos.principal": principal,
            "dfs.web.authentication.kerberos.keytab": keytab,
        }
        for part in ("namenode", "datanode"):
            server[f"dfs.{part}.kerberos.principal"] = principal
            server[f"dfs.{part}.keytab.file"] = keytab
        configure(**client)
        with running(tmp_path, client | server) as clusters:
            lake = clusters.lake
            lake.make("/wh/t")
            for path in ("/wh", "/wh/t"):
                lake.files.setOwner(lake.path(path), "ana", "people")
            yield Secured(lake, made)


def test_tables_are_changed_with_a_ticket_and_only_then(secured: Secured) -> None:
    warehouse, table = secured.lake.warehouse(), f"{secured.lake.address}/wh/t"
    with pytest.raises(PermissionError, match=r"GSSAPI|SASL"):
        warehouse.names(table)

    secured.realm.ticket("ana", secured.realm.keytab("ana"))
    warehouse.create(f"{table}/d/f", b"content")
    assert warehouse.read(f"{table}/d/f") == b"content"
    secured.lake.put("/wh/t/other")  # of another user
    assert sorted(warehouse.names(table)) == ["d", "other"]
    with warehouse.opened(table) as folder:
        assert folder.remove_if("d", lambda found: [file.name for file in found] == ["f"])
    assert secured.lake.all_files() == ["t/other"]

    secured.lake.make("/wh/theirs")
    with pytest.raises(PermissionError, match="user=ana, access=WRITE"):
        warehouse.create(f"{secured.lake.address}/wh/theirs/f", b"")
