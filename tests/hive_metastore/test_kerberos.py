"""Kerberos to a real Metastore, with tickets of a real KDC."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from support.embedded_metastore import HIVE_4
from support.kerberos import REALM, realm
from support.metastore import own_metastore, until_answers
from tidegate.errors import ConfigError, TransientError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings

MAIN = Path(__file__).parents[1] / "reference/hive/SecureMetastore.java"
CORE_SITE = """<configuration>
  <property><name>hadoop.security.authentication</name><value>kerberos</value></property>
  <property><name>hadoop.rpc.protection</name><value>{protection}</value></property>
</configuration>
"""
SECURE = replace(HIVE_4, main=str(MAIN))


def test_without_the_library_it_is_a_fault_of_the_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is said at the start, and not tried again and again."""
    monkeypatch.setitem(sys.modules, "kerberos", None)
    settings = MetastoreSettings.model_validate({"uri": "thrift://127.0.0.1:1", "kerberos": {}})
    with pytest.raises(ConfigError, match=r"pip install .*pure-sasl\[gssapi\]"):
        MetastoreClient(settings)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("protection", ["auth", "auth-conf"])
def test_a_metastore_with_kerberos_answers_only_clients_with_a_ticket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protection: Literal["auth", "auth-conf"]
) -> None:
    pytest.importorskip("kerberos", reason="pip install 'pure-sasl[gssapi]'")
    with realm(tmp_path / "realm") as made:
        service = made.keytab("hive/localhost")
        made.ticket("ana", made.keytab("ana"))
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        more = {
            "java.security.krb5.conf": made.environment["KRB5_CONFIG"],
            "metastore.sasl.enabled": "true",
            "metastore.kerberos.principal": f"hive/localhost@{REALM}",
            "metastore.kerberos.keytab.file": str(service),
            "tidegate.conf": str(tmp_path),
        }
        given = "privacy" if protection == "auth-conf" else "authentication"
        (tmp_path / "core-site.xml").write_text(CORE_SITE.format(protection=given))
        with own_metastore(tmp_path / "metastore", more, version=SECURE) as metastore:
            kerberos = {"host": "localhost", "protection": protection}
            fields = {"uri": metastore.uri, "kerberos": kerberos}
            settings = MetastoreSettings.model_validate(fields)
            until_answers(settings)
            with MetastoreClient(settings) as client:
                found = client.snapshot()  # several calls on one connection
                assert found.metastore
                assert client.tables() == ()

            plain = MetastoreSettings(uri=metastore.uri, timeout_ms=3_000)
            with MetastoreClient(plain) as client, pytest.raises(TransientError):
                client.uuid()
            monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'no-ticket'}")
            with MetastoreClient(settings) as client, pytest.raises(TransientError, match="cache"):
                client.uuid()
