"""Change buckets of Google Cloud Storage, on condition of an object's generation."""

from __future__ import annotations

from google.api_core.exceptions import NotFound, PreconditionFailed

from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.storage.gcs import GcsStore
from tidegate.tables.warehouse.object_files import MARK, ObjectChanges


class GcsChanges(GcsStore, ObjectChanges):
    """One bucket."""

    def put(self, key: str, content: bytes, if_version: Version, mark: str | None) -> None:
        """See `ObjectChanges`."""
        blob = self.bucket.blob(key)
        blob.metadata = {MARK: mark} if mark else None
        try:
            blob.upload_from_string(
                content,
                "application/octet-stream",
                if_generation_match=int(if_version or 0) if mark else None,
                **self.limits_of_a_call,
            )
        except PreconditionFailed as error:
            raise FileExistsError(key) from error
        except NotFound as error:
            raise self.missing from error

    def mark_of(self, key: str) -> str | None:
        """See `ObjectChanges`."""
        blob = self.bucket.get_blob(key, **self.limits_of_a_call)
        return blob and (blob.metadata or {}).get(MARK)

    def remove_one(self, entry: FileInfo) -> bool:
        """See `ObjectChanges`."""
        blob = self.bucket.blob(self.key(entry.path))
        try:
            blob.delete(if_generation_match=int(entry.version or 0), **self.limits_of_a_call)
        except (NotFound, PreconditionFailed):
            return False
        return True
