"""Read S3 through two clients: obstore is fast, and boto3 can name every key.

obstore lists 20,000 keys in less than a tenth of boto3's CPU time, but it shows the marker of a
directory (`d/`) as an empty file `d`, and fails at keys that name no path (`a//b`, control
characters). So a listing with such a key, or with an empty file, is repeated by boto3.
Credentials come from boto3's chain: environment, profile, web identity, instance.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import boto3
import obstore
from botocore.config import Config
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.exceptions import InvalidPathError
from obstore.store import S3Store as Objects

from tidegate.errors import FormatError
from tidegate.storage.object_store import ObjectStore, Row

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

_PAGE: Final = 1000
_CONNECT: Final = 5.0
"""Seconds until a connection must be there. Inside a data centre it takes milliseconds."""
_ATTEMPTS: Final = 7
_BOTO_ATTEMPTS: Final = 5
"""Boto waits longer between two, up to 1, 2, 4 and 8 seconds: on average as long as a call here."""


@dataclass(frozen=True, slots=True)
class _Options:
    """How a bucket is reached. Secrets are not among them: they come from boto3's chain."""

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    """None: for an endpoint of your own, yes."""
    profile: str | None = None
    ca: str | None = None
    """A file of PEM certificates."""
    timeout: float = 60.0
    """Seconds for a request and its answer."""
    max_concurrency: int | None = None


class _Clients(NamedTuple):
    """The two clients of a bucket."""

    objects: Objects
    boto: Any


class S3Store(ObjectStore):
    """Reads one bucket."""

    def __init__(self, bucket: str, **options: Any) -> None:  # noqa: ANN401 - of `_Options`
        """Take the bucket, and the options; nothing connects until the first call."""
        self.bucket, self._options = bucket, _Options(**options)
        super().__init__(f"s3://{bucket}", self._options.max_concurrency)

    def rows(self, prefix: str, delimiter: str = "") -> Sequence[Row]:
        """See `ObjectStore`."""
        found = (_delimited if delimiter else _flat)(self.clients, prefix)
        return self._keys(prefix, delimiter) if found is None else found

    def head(self, key: str) -> Row:
        """See `ObjectStore`."""
        objects = self.clients.objects
        try:
            found = obstore.head(objects, key)
        except FileNotFoundError:
            # an answer to HEAD has no text: it is the same if the bucket is missing
            next(obstore.list(objects, key), None)
            raise
        return key, found["size"], found["last_modified"], found["e_tag"]

    def read(self, location: str, limit: int) -> bytes:
        """See `Store`."""
        with self.request(location):
            answer = obstore.get(self.clients.objects, self.key(location))
            if answer.meta["size"] > limit:
                raise FormatError(f"{location} is larger than the limit of {limit} bytes")
            return bytes(answer.bytes())

    def read_end(self, location: str, count: int) -> bytes:
        """See `Store`."""
        with self.request(location):
            answer = obstore.get(
                self.clients.objects, self.key(location), options={"range": {"suffix": count}}
            )
            return bytes(answer.bytes())

    @property
    def clients(self) -> _Clients:
        """The clients, shared by all stores of a process: they keep connections."""
        return _clients_of(self.bucket, self._options)

    def _keys(self, prefix: str, delimiter: str = "") -> list[Row]:
        """List by boto3, which tells a marker from a file and names any key."""
        pages = self.clients.boto.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix, Delimiter=delimiter
        )
        found: list[Row] = []
        for page in pages:
            found += [
                (str(o["Key"]), int(o["Size"]), o["LastModified"], o["ETag"])
                for o in page.get("Contents", ())
            ]
            found += [(str(p["Prefix"]), 0, None, None) for p in page.get("CommonPrefixes", ())]
        return found


def _flat(clients: _Clients, prefix: str) -> list[Row] | None:
    """List all keys by obstore; None if it can't tell what some of them are."""
    own = prefix.removesuffix("/")
    found: list[Row] = []
    try:
        for page in obstore.list(clients.objects, prefix or None, chunk_size=_PAGE):
            for entry in page:
                key, size = entry["path"], entry["size"]
                if key == own:  # of the keys below a prefix, only its own marker
                    key = prefix
                elif not size:
                    return None
                found.append((key, size, entry["last_modified"], entry["e_tag"]))
    except InvalidPathError:
        return None
    return found


def _delimited(clients: _Clients, prefix: str) -> list[Row] | None:
    """List one directory by obstore; None if it can't name all of its keys."""
    try:
        found = obstore.list_with_delimiter(clients.objects, prefix or None)
    except InvalidPathError:
        return None
    rows: list[Row] = [(f"{path}/", 0, None, None) for path in found["common_prefixes"]]
    rows += [(o["path"], o["size"], o["last_modified"], o["e_tag"]) for o in found["objects"]]
    return rows


@cache
def _clients_of(bucket: str, options: _Options) -> _Clients:
    """The clients of a bucket. Every request has a deadline, and few repetitions.

    Raises:
        PermissionError: boto3's chain finds no credentials.
    """
    session = boto3.Session(profile_name=options.profile)
    if session.get_credentials() is None:
        raise PermissionError(errno.EACCES, f"s3://{bucket}: boto3 finds no credentials")
    region = options.region or session.region_name or "us-east-1"
    by_path = options.endpoint is not None if options.path_style is None else options.path_style
    boto = session.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name=region,
        verify=options.ca,
        config=Config(
            connect_timeout=_CONNECT,
            read_timeout=options.timeout,
            retries={"mode": "standard", "total_max_attempts": _BOTO_ATTEMPTS},
            s3={"addressing_style": "path" if by_path else "virtual"},
        ),
    )
    objects = Objects(
        bucket,
        config=_config(bucket, options.endpoint, region, by_path=by_path),
        credential_provider=Boto3CredentialProvider(session),
        client_options=_client_options(options),
        retry_config={
            "max_retries": _ATTEMPTS - 1,
            "retry_timeout": timedelta(seconds=options.timeout / 4),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        },
    )
    return _Clients(objects, boto)


def _config(bucket: str, endpoint: str | None, region: str, *, by_path: bool) -> S3Config:
    config: S3Config = {"region": region, "virtual_hosted_style_request": not by_path}
    if endpoint is not None:
        url = urlsplit(endpoint)
        host = url.netloc if by_path else f"{bucket}.{url.netloc}"
        config["endpoint"] = url._replace(netloc=host).geturl()
    return config


def _client_options(options: _Options) -> ClientConfig:
    common: ClientConfig = {
        "timeout": timedelta(seconds=options.timeout),
        "connect_timeout": timedelta(seconds=_CONNECT),
        "allow_http": (options.endpoint or "").startswith("http:"),
    }
    if options.ca is not None:
        common["root_certificate"] = Path(options.ca).read_bytes()
    return common
