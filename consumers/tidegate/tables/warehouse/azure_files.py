"""Change containers of Azure's Blob Storage, on condition of a blob's ETag."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError

from tidegate.storage import FileInfo
from tidegate.storage.azure import AzureStore, if_match
from tidegate.storage.file_info import Version
from tidegate.tables.warehouse.object_files import MARK, ObjectChanges

_REFUSED = frozenset({"BlobAlreadyExists", "BlobNotFound", "ConditionNotMet"})


class AzureChanges(AzureStore, ObjectChanges):
    """One container."""

    def put(self, key: str, content: bytes, if_version: Version, mark: str | None) -> None:
        """See `ObjectChanges`."""
        how: dict[str, Any] = {} if if_version is None else if_match(str(if_version))
        how["overwrite"] = mark is None or if_version is not None
        try:
            self.container.upload_blob(key, content, metadata={MARK: mark} if mark else None, **how)
        except HttpResponseError as error:
            if not _is_refusal(error):
                raise
            raise FileExistsError(key) from error

    def mark_of(self, key: str) -> str | None:
        """See `ObjectChanges`."""
        with suppress(ResourceNotFoundError):
            return self.container.get_blob_client(key).get_blob_properties().metadata.get(MARK)
        return None

    def remove_one(self, entry: FileInfo) -> bool:
        """See `ObjectChanges`. The ETag of a directory changes with what is in it."""
        key = self.key(entry.path).removesuffix("/")
        how = {} if entry.is_dir else if_match(str(entry.version))
        try:
            self.container.delete_blob(key, **how)
        except HttpResponseError as error:
            if not _is_refusal(error):
                raise
            return False
        return True

    def limits(self) -> Sequence[str]:
        """See `Changes`."""
        with suppress(AzureError):  # a signature of the container alone may not ask
            if self.container.get_account_information().get("is_hns_enabled"):
                return ["the account has a hierarchical namespace, where Tidegate was never run"]
        return ()


def _is_refusal(error: HttpResponseError) -> bool:
    """Whether the blob is gone, or has another version; the client adds the code of the answer."""
    return getattr(error, "error_code", None) in _REFUSED
