"""Change S3: exactly the objects that were listed, and never over another process's object."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple, NoReturn

import obstore
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError, PreconditionError

from tidegate.errors import PermanentError
from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.storage.s3 import S3Options, S3Store
from tidegate.storage.store_errors import error_of, store_errors
from tidegate.tables.warehouse.changes import RemoteChanges

_FEW: Final = 8
"""Up to this number of files, requests for every file are faster than a listing."""
_BULK: Final = 1000
_MARK: Final = "tidegate-writer"
_NO_MATCH: Final = frozenset({"404", "412", "NoSuchKey", "PreconditionFailed"})
_WRONG_TAG: Final = f'"{"0" * 32}"'


class _Conditions(NamedTuple):
    """Whether a server removes by ETag. Some accept the condition and ignore it."""

    one: bool = False
    """In a request for one object."""
    many: bool = False
    """In a request for many."""


class S3Changes(S3Store, RemoteChanges):
    """One bucket."""

    def __init__(self, bucket: str, options: S3Options, root: str) -> None:
        """Take the bucket, and a root in it, where conditions are tried."""
        super().__init__(bucket, options)
        self.root = root

    @cached_property
    def conditions(self) -> _Conditions:
        """Try with an object of its own whether the server removes by ETag."""
        location = f"{self.root}/.tidegate-probe-{uuid.uuid4().hex}"
        name = {"Bucket": self.bucket, "Key": self.key(location)}
        boto, many = self.clients.boto, {"Objects": [{"Key": name["Key"], "ETag": _WRONG_TAG}]}
        with store_errors(location):
            try:
                found = (
                    self._stays(location, lambda: boto.delete_object(**name, IfMatch=_WRONG_TAG)),
                    self._stays(
                        location, lambda: boto.delete_objects(Bucket=self.bucket, Delete=many)
                    ),
                )
            finally:
                boto.delete_object(**name)
        return _Conditions(*found)

    def create(self, location: str, content: bytes) -> None:
        """See `Changes`. The client repeats a request whose answer was lost.

        The repetition is refused by its own success, so each creation carries a mark of its own.
        """
        self._put(location, content, "create")

    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        """See `Changes`."""
        if if_version is None:
            with store_errors(location):
                obstore.put(self.clients.objects, self.key(location), content, use_multipart=False)
            return
        self._put(location, content, {"e_tag": str(if_version)})

    def remove(self, entries: Sequence[FileInfo]) -> int:
        """See `Changes`."""
        if not entries:
            return 0
        with store_errors(entries[0].path):
            if len(entries) <= _FEW and self.conditions.one:
                return sum(map(self._remove_one, entries))
            if self.conditions.many:
                return self._remove_by_boto(entries, with_tags=True)
            # obstore can't name the markers of directories, nor control characters
            plain = [e.path for e in entries if not e.is_dir and e.path.isprintable()]
            obstore.delete(self.clients.objects, [self.key(path) for path in plain])
            others = set(plain)
            self._remove_by_boto([e for e in entries if e.path not in others], with_tags=False)
        return len(entries)

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """See `Changes`. A removal of a missing object succeeds, so they are counted before."""
        existing = self._existing(folder, names)
        removed = self.remove(existing)
        self.require_gone(existing, self._existing(folder, [e.name for e in existing]))
        return removed

    def remove_if_empty(self, location: str) -> bool:
        """See `Changes`."""
        _refuse(location)

    def moving(self, source: str, target: str) -> Any:  # noqa: ANN401 - never returns
        """See `Changes`."""
        del target
        _refuse(source)

    def limits(self) -> Sequence[str]:
        """See `Changes`."""
        found: list[str] = []
        if not self.conditions.many:
            found.append(
                "this server ignores ETags in bulk removals: a replaced file is removed as listed"
            )
        with store_errors(self.root):
            if "Status" in self.clients.boto.get_bucket_versioning(Bucket=self.bucket):
                found.append(
                    "the bucket has versions: a removal frees no space until a lifecycle rule"
                    " removes the noncurrent versions"
                )
        return found

    def _existing(self, folder: str, names: Sequence[str]) -> list[FileInfo]:
        if len(names) <= _FEW:
            found = (self._entry_or_none(f"{folder}/{name}") for name in names)
            return [entry for entry in found if entry is not None]
        wanted = set(names)
        with suppress(FileNotFoundError):
            return [e for e in self.children(folder) if e.name in wanted and not e.is_dir]
        return []

    def _entry_or_none(self, location: str) -> FileInfo | None:
        with suppress(FileNotFoundError):
            return self.entry(location)
        return None

    def _put(self, location: str, content: bytes, mode: Any) -> None:  # noqa: ANN401 - obstore's
        key, mark = self.key(location), uuid.uuid4().hex
        objects = self.clients.objects
        with store_errors(location):
            try:
                obstore.put(
                    objects, key, content, mode=mode, attributes={_MARK: mark}, use_multipart=False
                )
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if "NoSuchBucket" in str(error):
                    raise
                with suppress(FileNotFoundError):
                    if obstore.get(objects, key).attributes.get(_MARK) == mark:
                        return
                raise FileExistsError(location) from error

    def _stays(self, location: str, remove: Callable[[], object]) -> bool:
        obstore.put(self.clients.objects, self.key(location), b"")
        with suppress(ClientError):
            remove()
        return self._entry_or_none(location) is not None

    def _remove_one(self, entry: FileInfo) -> bool:
        try:
            self.clients.boto.delete_object(
                Bucket=self.bucket, Key=self.key(entry.path), IfMatch=entry.version
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in _NO_MATCH:
                raise
            return False
        return True

    def _remove_by_boto(self, entries: Sequence[FileInfo], *, with_tags: bool) -> int:
        refused = 0
        for start in range(0, len(entries), _BULK):
            named = [
                {"Key": self.key(e.path)} | ({"ETag": str(e.version)} if with_tags else {})
                for e in entries[start : start + _BULK]
            ]
            answer = self.clients.boto.delete_objects(
                Bucket=self.bucket, Delete={"Objects": named, "Quiet": True}
            )
            for error in answer.get("Errors", ()):
                code, seen = str(error.get("Code")), f"{error.get('Key')}: {error.get('Message')}"
                if not (with_tags and code in _NO_MATCH):
                    raise error_of(code, seen) or OSError(f"{seen} ({code})")
                refused += 1
        return len(entries) - refused


def _refuse(location: str) -> NoReturn:
    raise PermanentError(f"{location} is on an object store, which has no atomic rename")
