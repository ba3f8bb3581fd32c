"""Read buckets of Google Cloud Storage through Google's client, which names every key.

The version of an object is its generation. Credentials are the application's default ones:
`GOOGLE_APPLICATION_CREDENTIALS`, gcloud's, workload identity, the instance's service account.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import google.auth
from google.api_core.exceptions import NotFound
from google.auth.exceptions import DefaultCredentialsError
from google.cloud.storage import Client
from google.cloud.storage.retry import DEFAULT_RETRY

from tidegate.errors import PermanentError
from tidegate.storage.object_store import TIMEOUT, CloudStore, Row

_CONNECT: Final = 5.0


class GcsStore(CloudStore):
    """Reads one bucket."""

    def __init__(
        self,
        bucket: str,
        *,
        endpoint: str | None = None,
        timeout: float = TIMEOUT,
        max_concurrency: int | None = None,
    ) -> None:
        """Take the bucket; nothing connects until the first call."""
        super().__init__(f"gs://{bucket}", max_concurrency)
        self._bucket, self._endpoint = bucket, endpoint
        self.limits_of_a_call: dict[str, Any] = {
            "timeout": (_CONNECT, timeout),
            "retry": DEFAULT_RETRY.with_timeout(timeout / 4),
        }

    @property
    def bucket(self) -> Any:  # noqa: ANN401 - Google's client is untyped
        """The bucket of a client that all stores of a process share: it keeps connections."""
        return client_of(self._endpoint).bucket(self._bucket)

    @property
    def missing(self) -> PermanentError:
        """The error if the bucket does not exist."""
        return PermanentError(f"{self._place}: NoSuchBucket")

    def rows(self, prefix: str, delimiter: str = "") -> Sequence[Row]:
        """See `ObjectStore`."""
        found = self.bucket.list_blobs(
            prefix=prefix, delimiter=delimiter or None, **self.limits_of_a_call
        )
        try:
            rows = [_row(blob) for blob in found]
        except NotFound as error:  # a listing without results raises nothing
            raise self.missing from error
        return rows + [(name, 0, None, None) for name in found.prefixes]

    def head(self, key: str) -> Row:
        """See `ObjectStore`."""
        blob = self.bucket.get_blob(key, **self.limits_of_a_call)
        if blob is None:
            self.rows(f"{key}/", "/")  # the answer is the same if the bucket is missing
            raise FileNotFoundError(key)
        return _row(blob)

    def content(self, row: Row, start: int) -> bytes:
        """See `CloudStore`."""
        blob = self.bucket.blob(row[0])
        found: bytes = blob.download_as_bytes(
            start=start or None,
            raw_download=True,
            if_generation_match=int(row[3] or 0),
            **self.limits_of_a_call,
        )
        return found


def _row(blob: Any) -> Row:  # noqa: ANN401 - Google's client is untyped
    return blob.name, blob.size, blob.updated, str(blob.generation)


@cache
def client_of(endpoint: str | None) -> Client:
    """Google's client.

    Raises:
        PermissionError: there are no credentials.
    """
    try:
        credentials, _ = google.auth.default()
    except DefaultCredentialsError as error:
        raise PermissionError(errno.EACCES, f"gs: {error}") from error
    at = {"api_endpoint": endpoint} if endpoint else None
    return Client("-", credentials, client_options=at)  # no call here needs a project
