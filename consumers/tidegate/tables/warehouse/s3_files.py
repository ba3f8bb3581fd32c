"""Change S3: exactly the objects that were listed, and never over another process's object."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple

import obstore
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError, PreconditionError

from tidegate.errors import TidegateError
from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.storage.parallel import batches_of
from tidegate.storage.s3 import S3Store
from tidegate.storage.store_errors import error_of
from tidegate.tables.warehouse.object_files import FEW, MARK, ObjectChanges

_BULK: Final = 1000
"""Objects that a request can remove."""
_NO_MATCH: Final = frozenset({"404", "412", "NoSuchKey", "PreconditionFailed"})
"""Codes of the answer to a removal on condition of an ETag that has changed."""
_WRONG_TAG: Final = f'"{"0" * 32}"'


class _Conditions(NamedTuple):
    """Whether a server removes by ETag. Some accept the condition and ignore it."""

    one: bool = False
    """In a request for one object."""
    many: bool = False
    """In a request for many."""


class S3Changes(S3Store, ObjectChanges):
    """The objects of one bucket; `s3_versions` adds moves of directories."""

    def __init__(self, bucket: str, *, root: str, **options: Any) -> None:  # noqa: ANN401
        """Take the bucket, a root in it, where conditions are tried, and as `S3Store` options."""
        super().__init__(bucket, **options)
        self.root = root

    @cached_property
    def conditions(self) -> _Conditions:
        """Try with an object of its own whether the server removes by ETag."""
        location = f"{self.root}/.tidegate-probe-{uuid.uuid4().hex}"
        name = {"Bucket": self.bucket, "Key": self.key(location)}
        boto, many = self.clients.boto, {"Objects": [{"Key": name["Key"], "ETag": _WRONG_TAG}]}
        try:
            found = (
                self._stays(location, lambda: boto.delete_object(**name, IfMatch=_WRONG_TAG)),
                self._stays(location, lambda: boto.delete_objects(Bucket=self.bucket, Delete=many)),
            )
        finally:
            with self.request(location):
                boto.delete_object(**name)
        return _Conditions(*found)

    def put(self, key: str, content: bytes, if_version: Version, mark: str | None) -> None:
        """See `ObjectChanges`."""
        mode: Any = "overwrite" if mark is None else "create"
        if if_version is not None:
            mode = {"e_tag": str(if_version)}
        attributes = {MARK: mark} if mark else None
        objects = self.clients.objects
        try:
            obstore.put(
                objects, key, content, mode=mode, attributes=attributes, use_multipart=False
            )
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            if "NoSuchBucket" in str(error):
                raise
            raise FileExistsError(key) from error

    def mark_of(self, key: str) -> str | None:
        """See `ObjectChanges`."""
        with suppress(FileNotFoundError):
            found: str | None = obstore.get(self.clients.objects, key).attributes.get(MARK)
            return found
        return None

    def remove(self, entries: Sequence[FileInfo]) -> int:
        """See `Changes`."""
        if not entries:
            return 0
        if len(entries) <= FEW and self.conditions.one:
            return sum(map(self._remove, entries))
        if self.conditions.many:
            return self._remove_by_boto(entries, with_tags=True)
        # obstore can't name the markers of directories, nor control characters
        plain = [e.path for e in entries if not e.is_dir and e.path.isprintable()]
        self.at_once(self._remove_plain, batches_of(plain, _BULK))
        removed = set(plain)
        self._remove_by_boto([e for e in entries if e.path not in removed], with_tags=False)
        return len(entries)

    def limits(self) -> Sequence[str]:
        """See `Changes`."""
        found: list[str] = []
        if not self.conditions.many:
            found.append(
                "this server ignores ETags in bulk removals: a replaced file is removed as listed"
            )
        with self.request(self.root):
            if "Status" in self.clients.boto.get_bucket_versioning(Bucket=self.bucket):
                found.append(
                    "the bucket has versions: a removal frees no space until a lifecycle rule"
                    " removes the noncurrent versions"
                )
        return found

    def _stays(self, location: str, remove: Callable[[], object]) -> bool:
        with self.request(location):
            obstore.put(self.clients.objects, self.key(location), b"")
            with suppress(ClientError):
                remove()
        return self.entry_or_none(location) is not None

    def remove_one(self, entry: FileInfo) -> bool:
        """See `ObjectChanges`. Only where the server honours the condition."""
        name = {"Bucket": self.bucket, "Key": self.key(entry.path)}
        try:
            self.clients.boto.delete_object(**name, IfMatch=entry.version)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _NO_MATCH:
                raise
            return False
        return True

    def _remove_plain(self, paths: Sequence[str]) -> None:
        with self.request(paths[0]):
            obstore.delete(self.clients.objects, [self.key(path) for path in paths])

    def delete_in_bulk(
        self, names: Sequence[Mapping[str, str]], *, on_condition: bool, quiet: bool = False
    ) -> tuple[list[Mapping[str, Any]], list[Exception]]:
        """Remove objects by key, and by ETag or version if they have one.

        Args:
            names: What S3 calls object identifiers.
            on_condition: Ignore objects that are gone, or have another ETag.
            quiet: The answers have errors only.

        Returns:
            The answers, and all faults: a part may be removed nevertheless.
        """
        faults = list[Exception]()

        def delete(batch: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = {}
            removal = {"Objects": batch, "Quiet": quiet}
            try:
                with self.request(self._place + batch[0]["Key"]):
                    answer = self.clients.boto.delete_objects(Bucket=self.bucket, Delete=removal)
            except (OSError, TidegateError) as fault:
                faults.append(fault)
            for error in answer.get("Errors", ()):
                code, seen = str(error.get("Code")), f"{error.get('Key')}: {error.get('Message')}"
                if not (on_condition and code in _NO_MATCH):
                    faults.append(error_of(code, seen) or OSError(f"{seen} ({code})"))
            return answer

        return self.at_once(delete, batches_of(names, _BULK)), faults

    def _remove_by_boto(self, entries: Sequence[FileInfo], *, with_tags: bool) -> int:
        names = [
            {"Key": self.key(e.path)} | ({"ETag": str(e.version)} if with_tags else {})
            for e in entries
        ]
        answers, faults = self.delete_in_bulk(names, on_condition=with_tags, quiet=True)
        for fault in faults:
            raise fault
        return len(entries) - sum(len(answer.get("Errors", ())) for answer in answers)
