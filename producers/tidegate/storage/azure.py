"""Read containers of Azure's Blob Storage through Azure's client.

The version of a blob is its ETag. A directory has a marker, as Hadoop's clients (abfs, wasb) write
it: a blob of its name with `hdi_isfolder` in its metadata. An account with a hierarchical namespace
lists its directories in the same way. Credentials come from `AZURE_STORAGE_KEY`,
`AZURE_STORAGE_SAS_TOKEN`, or Azure's own chain: a service principal in the environment, workload
identity, managed identity, the command line `az`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ResourceNotFoundError
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobProperties, ContainerClient

from tidegate.errors import FormatError
from tidegate.storage.object_store import TIMEOUT, CloudStore, Row

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_CONNECT: Final = 5
_RETRIES: Final = 4
_MISTAKEN: Final = re.compile(r"\\|\.(/|$)")


class AzureStore(CloudStore):
    """Reads one container."""

    def __init__(
        self,
        authority: str,
        *,
        endpoint: str | None = None,
        timeout: float = TIMEOUT,
        max_concurrency: int | None = None,
    ) -> None:
        """Take the container and its account; nothing connects until the first call.

        Raises:
            ValueError: the authority is not of the form `container@account.dfs.core.windows.net`.
        """
        if not all(authority.partition("@")):
            raise ValueError("a container is named abfss://container@account.dfs.core.windows.net")
        super().__init__(f"abfss://{authority}", max_concurrency)
        self._authority, self._reached = authority, (endpoint, timeout)

    @property
    def container(self) -> ContainerClient:
        """The client of the container, which all stores of a process share."""
        return client_of(self._authority, *self._reached)

    def key(self, location: str) -> str:
        """See `ObjectStore`.

        Raises:
            FormatError: Azure would take the name for another one.
        """
        if _MISTAKEN.search(location):
            raise FormatError(f"Azure takes a backslash or a dot at a name's end amiss: {location}")
        return super().key(location)

    def rows(self, prefix: str, delimiter: str = "") -> Sequence[Row]:
        """See `ObjectStore`.

        Raises:
            FormatError: the name of a blob ends in a slash.
        """
        container = self.container
        walk = partial(container.walk_blobs, delimiter=delimiter) if delimiter else None
        found: dict[str, Row] = {}
        for blob in (walk or container.list_blobs)(prefix or None, include=["metadata"]):
            key, size, modified, version = _row(blob)
            is_prefix = delimiter and key.endswith("/")
            found[key] = (key, 0, None, None) if is_prefix else (key, size, modified, version)
        if prefix and (not delimiter or not found):
            with suppress(ResourceNotFoundError):  # its own marker has no slash
                row = self._properties(prefix.removesuffix("/"))
                found |= {prefix: row} if row[0] == prefix else {}
        return list(found.values())

    def head(self, key: str) -> Row:
        """See `ObjectStore`."""
        row = self._properties(key)
        if row[0] != key:
            raise FileNotFoundError(key)
        return row

    def content(self, row: Row, start: int) -> bytes:
        """See `CloudStore`."""
        blob = self.container.download_blob(row[0], start or None, **if_match(row[3]))
        return bytes(blob.readall())

    def _properties(self, key: str) -> Row:
        return _row(self.container.get_blob_client(key).get_blob_properties())


def if_match(version: str | None) -> dict[str, Any]:
    """The condition of a call: that the blob still has this version."""
    return {"etag": f'"{version}"', "match_condition": MatchConditions.IfNotModified}


def _row(blob: Any) -> Row:  # noqa: ANN401 - the client yields two classes
    """A blob; the name of a directory gets its slash."""
    if not isinstance(blob, BlobProperties):
        return blob.name, 0, None, None
    if blob.name.endswith("/"):
        raise FormatError(f"{blob.container}: no path can name this blob: {blob.name!r}")
    metadata = {name.lower(): value for name, value in (blob.metadata or {}).items()}
    slash = "/" if metadata.get("hdi_isfolder", "").lower() == "true" else ""
    # a listing shows ETags without quotes
    return f"{blob.name}{slash}", blob.size, blob.last_modified, (blob.etag or "").strip('"')


@cache
def client_of(authority: str, endpoint: str | None, timeout: float) -> ContainerClient:
    """The client of a container. Every request has a deadline, and few repetitions."""
    container, _, host = authority.partition("@")
    key, sas = map(os.environ.get, ("AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"))
    credential: AzureNamedKeyCredential | AzureSasCredential | TokenCredential
    if key:
        credential = AzureNamedKeyCredential(host.partition(".")[0], key)
    else:
        credential = AzureSasCredential(sas) if sas else DefaultAzureCredential()
    return ContainerClient(
        endpoint or f"https://{host.replace('.dfs.', '.blob.', 1)}",
        container,
        credential,
        connection_timeout=_CONNECT,
        read_timeout=timeout,
        retry_total=_RETRIES,
        initial_backoff=0.1,
        increment_base=1.5,
        random_jitter_range=0.1,
    )
