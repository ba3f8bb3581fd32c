"""TLS to a real Metastore."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.metastore import own_metastore, until_answers
from tidegate.compute.java import find_java
from tidegate.errors import TransientError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings

pytestmark = pytest.mark.full
_PASSWORD = "changeit"  # noqa: S105 - of a key that lives as long as the test


def key_store(folder: Path, host: str) -> tuple[Path, Path]:
    """A key store for a host's address, and its certificate as PEM."""
    keytool = Path(find_java(17)).parent / "keytool"
    store, pem = folder / f"{host}.jks", folder / f"{host}.pem"
    common = ["-alias", "metastore", "-keystore", str(store), "-storepass", _PASSWORD]
    key = ["-genkeypair", "-keyalg", "RSA", "-keypass", _PASSWORD, "-dname", "CN=metastore"]
    names = ["-ext", f"SAN=ip:{host}", "-validity", "2", "-storetype", "JKS"]
    for arguments in ([*key, *common, *names], ["-exportcert", "-rfc", "-file", str(pem), *common]):
        subprocess.run([str(keytool), *arguments], check=True, capture_output=True)
    return store, pem


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9"])
def test_a_metastore_with_tls_is_trusted_by_its_authority_and_its_name(
    tmp_path: Path, host: str
) -> None:
    """One whose certificate is of another host is not, though its authority is trusted."""
    store, pem = key_store(tmp_path, host)
    more = {
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(store),
        "metastore.keystore.password": _PASSWORD,
    }
    with own_metastore(tmp_path / "metastore", more) as metastore:
        fields = {"uri": metastore.uri, "tls": {"ca_file": str(pem)}}
        trusted = MetastoreSettings.model_validate(fields)
        if host == "127.0.0.1":
            until_answers(trusted)
        else:
            with MetastoreClient(trusted) as client, pytest.raises(TransientError, match="verif"):
                client.uuid()
        for tls in (None, dict[str, str]()):  # in plain text; and by this machine's authorities
            settings = MetastoreSettings.model_validate(fields | {"tls": tls, "timeout_ms": 3_000})
            with MetastoreClient(settings) as client, pytest.raises(TransientError):
                client.uuid()
