"""Where a Metastore is, and how to connect to it."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import BaseModel, Field, field_validator

from tidegate.events.fields import Name

_ADDRESS: Final = re.compile(r"^(?:thrift://)?(\[[0-9A-Fa-f:]+\]|[^\s:/,\[\]]+):([0-9]{1,5})/?$")
_LAST_PORT: Final = 65_535


class _Tls(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """TLS to the Metastore (its `metastore.use.SSL`). The server's name is always verified."""

    ca_file: str | None = None
    """A PEM file of the authorities to trust; by default those of this machine."""
    certificate_file: str | None = None
    """A PEM file with the certificate to show to the Metastore, where it asks for one."""
    key_file: str | None = None
    """The PEM file of its private key, where the certificate's does not contain it."""


class _Kerberos(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """Kerberos to the Metastore (its `metastore.sasl.enabled`), with the ticket cache's ticket."""

    service: str = Field(default="hive", min_length=1)
    """The first part of the Metastore's principal."""
    host: str | None = None
    """The second part of it; by default the host of the address."""
    protection: Literal["auth", "auth-int", "auth-conf"] = "auth"
    """The least protection to accept, as in `hadoop.rpc.protection`."""


class MetastoreSettings(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A Hive Metastore. Thrift over TCP; TLS and Kerberos where they are set."""

    uri: str
    """`thrift://host:port`; several, separated by commas, are tried in order."""
    catalog: Name = "hive"
    """The first part of the tables' names in the events: catalog.database.table."""
    timeout_ms: int = Field(default=10_000, ge=100)
    """How long a call may take, in milliseconds; then it has failed."""
    tls: _Tls | None = None
    """TLS, where the Metastore has it."""
    kerberos: _Kerberos | None = None
    """Kerberos, where the Metastore has it."""

    @field_validator("uri")
    @classmethod
    def _has_addresses(cls, uri: str) -> str:
        addresses(uri)
        return uri


def addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each address in a list such as `hive.metastore.uris`.

    Raises:
        ValueError: one of them is not `thrift://host:port`.
    """
    found = tuple(_address(part.strip()) for part in uri.split(","))
    return tuple(dict.fromkeys(found))


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[2]) <= _LAST_PORT:
        raise ValueError("not an address of the form thrift://host:port")
    return match[1].strip("[]"), int(match[2])
