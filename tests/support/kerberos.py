"""A realm of the test's own: a real KDC, with principals, keytabs and tickets."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.waiting import wait_for
from tidegate.embedded.process import free_ports

REALM = "TIDEGATE.TEST"
_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_KRB5 = """
[libdefaults]
default_realm = {realm}
dns_lookup_realm = false
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""
_KDC = """
[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
}}
[dbmodules]
db_module_dir = {modules}
"""


@dataclass(frozen=True)
class Realm:
    """Where the realm's files are; clients find it by KRB5_CONFIG."""

    folder: Path
    tools: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """What clients and tools need."""
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
        }

    def keytab(self, principal: str) -> Path:
        """Make a principal; its keytab."""
        file = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.call("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.call("kadmin.local", "-q", f"ktadd -k {file} {principal}")
        return file

    def ticket(self, principal: str, keytab: Path) -> None:
        """Get its ticket."""
        self.call("kinit", "-k", "-t", str(keytab), principal)

    def call(self, tool: str, *arguments: str) -> None:
        subprocess.run(
            [self.tools[tool], *arguments],
            env={**os.environ, **self.environment},
            check=True,
            capture_output=True,
            timeout=60,
        )


@contextmanager
def realm(folder: Path) -> Generator[Realm]:
    """Start a KDC; skips where there is none."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/lib/mit/sbin"
    found = {name: shutil.which(name, path=path) for name in _TOOLS}
    tools = {name: where for name, where in found.items() if where is not None}
    if len(tools) < len(_TOOLS):
        missing = ", ".join(sorted({*_TOOLS} - {*tools}))
        pytest.skip(f"no {missing} here: apt-get install krb5-kdc krb5-admin-server krb5-user")
    folder.mkdir()
    port = free_ports()[0]
    (folder / "krb5.conf").write_text(_KRB5.format(realm=REALM, port=port))
    library = Path(tools["krb5kdc"]).parents[1] / "lib"
    modules = next(library.glob("*/krb5/plugins/kdb"), library / "krb5/plugins/kdb")
    values = {"realm": REALM, "port": port, "folder": folder, "modules": modules}
    (folder / "kdc.conf").write_text(_KDC.format_map(values))
    made = Realm(folder, tools)
    made.call("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-a-test")
    command = [tools["krb5kdc"], "-n"]
    with (
        (folder / "kdc.log").open("w") as log,
        subprocess.Popen(
            command, env={**os.environ, **made.environment}, stdout=log, stderr=log
        ) as kdc,
    ):
        try:
            wait_for("the KDC", lambda: _answers(port))
            yield made
        finally:
            kdc.terminate()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
    except OSError:
        return False
    return True
