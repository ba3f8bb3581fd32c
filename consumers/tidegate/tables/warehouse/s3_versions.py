"""Move directories on S3, in a bucket with versions: by delete markers.

S3 can't rename. A removed object stays behind a delete marker there, so a directory is moved by a
list of its objects' versions, in the directory that it moves to (`NAME.versions.json`). The list is
created first. Then the objects are removed, and each gets a marker. To move the directory back, the
markers are removed, and the list last. To remove it for good, the listed versions are removed.

A process may die between any two of these requests. The list then names every object that may be
removed, and which of them are is found out by listing the versions. Objects that were written since
are never removed, and never hidden by a marker for longer than it takes to look again.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from tidegate.bounded_json import MAX_VALUES, parse_json
from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.storage import FileInfo, ParallelMap
from tidegate.storage.store import MAX_READ, Capabilities
from tidegate.tables.warehouse.changes import MayGo, Move, Moved
from tidegate.tables.warehouse.s3_files import S3Changes

_LIST: Final = ".versions.json"
_MOST: Final = MAX_VALUES // 5
"""Objects of a directory: a list with more could not be read."""
_ROUNDS: Final = 5
_DAY: Final = timedelta(days=1)
_ARCHIVES: Final = frozenset({"DEEP_ARCHIVE", "GLACIER"})
"""Storage classes whose objects can't be read."""


class _Version(NamedTuple):
    """One version of an object. The ETag, because a version "null" may be overwritten."""

    id: str
    e_tag: str
    size: int


_Listed = Mapping[str, _Version]
"""The objects of a moved directory: their versions by key, relative to the directory."""


@dataclass(slots=True)
class _Key:
    """All versions of one key."""

    versions: list[_Version] = field(default_factory=list[_Version])
    """The newest first, without markers."""
    markers: list[str] = field(default_factory=list[str])
    hidden_by: str | None = None
    """The delete marker that is the current version."""
    current: tuple[_Version, datetime] | None = None
    """The current version, with the time of its modification."""

    def shows(self, version: _Version) -> bool:
        """Whether this version is the current one."""
        return self.current is not None and self.current[0] == version


class VersionedS3(S3Changes):
    """One bucket, whose directories can be moved if it has versions."""

    _can: Capabilities | None = None

    @property
    def can(self) -> Capabilities:
        """See `Store`. Whether there are versions is asked until there is an answer.

        Without the lock of a cached property: while S3 is away, threads would wait for each other.
        """
        if self._can is None:
            has_versions = self._has_versions()
            self._can = Capabilities(versions=has_versions, conditional_writes=True)
        return self._can

    def remove_if_empty(self, location: str) -> bool:
        """See `Changes`. A directory without a key does not exist."""
        return not self.below(location)

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Move]:
        """See `Changes`.

        Raises:
            PermanentError: the bucket has no versions now.
        """
        if source != target and not self._has_versions():
            raise PermanentError(
                f"{source} is in a bucket without versions: an object store has no rename"
            )
        act = self._rename if source == target else self._move_aside
        yield partial(act, source, target)

    @contextmanager
    def moving_back(self, source: str, target: str) -> Generator[Move]:
        """See `Changes`. Also where the bucket's versions were suspended since."""
        yield partial(self._move_back, source, target)

    def moved_names(self, location: str) -> Sequence[str]:
        """See `Changes`."""
        return [n.removesuffix(_LIST) for n in self.names(location) if n.endswith(_LIST)]

    def moved(
        self, location: str, names: Sequence[str], origin: str, parallel_map: ParallelMap
    ) -> Sequence[Moved | None]:
        """See `Changes`. A listed version that is gone does not count."""
        return parallel_map.map(partial(self._moved, location, origin), names)

    def remove_moved(self, location: str, origin: str) -> None:
        """See `Changes`. A listed version that is current was moved back, and stays.

        The versions go before the markers, which would show them again.

        Raises:
            TransientError: a version is still there.
        """
        listed = self.listed(location)
        if listed is None:
            return
        for is_again in (False, True):
            keys = self.keys(origin)
            there = [
                (key, version.id)
                for key, version in listed.items()
                if key in keys and version in keys[key].versions and not keys[key].shows(version)
            ]
            if is_again and there:
                raise TransientError(f"{origin}/{there[0][0]} is still there after its removal")
            self.remove_versions(origin, there)
        keys = self.keys(origin) if there else keys
        bare = [(key, keys[key]) for key in listed if key in keys and not keys[key].versions]
        self.remove_versions(origin, [(key, mark) for key, left in bare for mark in left.markers])
        self.forget(location)

    def shortened(self, location: str, keep: timedelta) -> Sequence[str]:
        """See `Changes`. A rule with a filter of another kind than a prefix counts as matching.

        The removal of delete markers that are left alone (`ExpiredObjectDeleteMarker`) leaves those
        with a version behind them.
        """
        prefix = self.prefix(location)
        with self.request(location):
            try:
                answer = self.clients.boto.get_bucket_lifecycle_configuration(Bucket=self.bucket)
            except ClientError as error:
                if _code(error) in {"NoSuchLifecycleConfiguration", "NotImplemented"}:
                    return ()
                raise
        return [
            str(rule.get("ID"))
            for rule in answer["Rules"]
            if rule["Status"] == "Enabled" and _overlaps(prefix, rule) and _ends(rule, keep)
        ]

    # the moves

    def _move_aside(
        self, source: str, target: str, name: str, as_name: str, may_go: MayGo
    ) -> bool | None:
        """Hide a directory's objects. One that was written meanwhile is shown again, and stays."""
        here = f"{source}/{name}"
        keys = self.keys(here)
        current = {key: at.current[0] for key, at in keys.items() if at.current}
        if not current:
            return None
        if not may_go([entry for entry in self.infos(here, keys) if not entry.is_dir]):
            return False
        self.list_moved(f"{target}/{as_name}", current)
        marks, faults = self.hide(here, current)
        keys = self.keys(here)
        lost = [key for key in marks if key not in keys or not keys[key].versions]
        others = [
            (key, mark)
            for key, mark in marks.items()
            if key not in lost
            and keys[key].hidden_by == mark
            and keys[key].versions[0] != current[key]
        ]
        self.remove_versions(here, others)  # before any error: no later attempt knows the markers
        for fault in faults:
            raise fault
        if lost:
            raise TransientError(f"{here}/{lost[0]} was removed, and left no version")
        return not others and not any(at.current for at in keys.values())

    def _move_back(
        self, source: str, target: str, name: str, as_name: str, may_go: MayGo
    ) -> bool | None:
        """Remove the delete markers over the versions that a moved directory lists."""
        place, there = f"{source}/{name}", f"{target}/{as_name}"
        listed = self.listed(place)
        if listed is None:
            return None
        if not may_go(()):
            return False
        for _ in range(_ROUNDS):  # a removal that was repeated leaves two markers
            keys = self.keys(there)
            marks = [
                (key, mark)
                for key, version in listed.items()
                if (mark := _marker_over(version, keys.get(key, _Key()), f"{there}/{key}"))
            ]
            if not marks:
                break
            self.remove_versions(there, marks)
        else:
            raise TransientError(f"{there} is being removed by another process")
        for key in listed:
            if _is_folder(key) and key not in keys:  # some servers keep no versions of those
                self.put_folder(f"{there}/{key}")
        self.forget(place)
        return True

    def _rename(
        self, source: str, target: str, name: str, as_name: str, may_go: MayGo
    ) -> bool | None:
        """Rename the list of a moved directory. Until the second request, both names are there."""
        listed = self.listed(f"{source}/{name}")
        if listed is None:
            return None
        if as_name == name or not may_go(()):
            return False
        self.list_moved(f"{target}/{as_name}", listed)
        self.forget(f"{source}/{name}")
        return True

    def keys(self, location: str) -> dict[str, _Key]:
        """All keys below a directory, relative to it, with their versions."""
        found: dict[str, _Key] = {}
        prefix = self.prefix(location)
        with self.request(location):
            for page in self.clients.boto.get_paginator("list_object_versions").paginate(
                Bucket=self.bucket, Prefix=prefix
            ):
                for row in page.get("Versions", ()):
                    key = found.setdefault(row["Key"][len(prefix) :], _Key())
                    version = _Version(row["VersionId"], row["ETag"], row["Size"])
                    key.versions.append(version)
                    if row["IsLatest"]:
                        key.current = (version, row["LastModified"])
                for row in page.get("DeleteMarkers", ()):
                    key = found.setdefault(row["Key"][len(prefix) :], _Key())
                    key.markers.append(row["VersionId"])
                    if row["IsLatest"]:
                        key.hidden_by = row["VersionId"]
        return found

    def infos(self, location: str, keys: Mapping[str, _Key]) -> list[FileInfo]:
        """The current objects below a directory, as `entries` lists them."""
        prefix = self.prefix(location)
        found = (
            self._info(prefix, prefix + key, at.current[0].size, at.current[1], at.current[0].e_tag)
            for key, at in keys.items()
            if at.current
        )
        return sorted(found, key=lambda entry: entry.path)

    def hide(self, location: str, listed: _Listed) -> tuple[dict[str, str], list[Exception]]:
        """Remove objects; the ids of their delete markers by key, and all faults.

        An object that was replaced meanwhile stays, if the server honours ETags.
        """
        prefix = self.prefix(location)
        names = [
            {"Key": prefix + key} | ({"ETag": version.e_tag} if self.conditions.many else {})
            for key, version in listed.items()
        ]
        answers, faults = self.delete_in_bulk(names, on_condition=True)
        marks = {
            gone["Key"][len(prefix) :]: gone["DeleteMarkerVersionId"]
            for answer in answers
            for gone in answer.get("Deleted", ())
            if gone.get("DeleteMarkerVersionId")
        }
        return marks, faults

    def remove_versions(self, location: str, versions: Iterable[tuple[str, str]]) -> None:
        """Remove versions and delete markers, by key and id."""
        prefix = self.prefix(location)
        names = [{"Key": prefix + key, "VersionId": id_} for key, id_ in versions]
        for fault in self.delete_in_bulk(names, on_condition=True)[1]:
            raise fault

    def listed(self, location: str) -> _Listed | None:
        """The list of a moved directory; None: there is none.

        Raises:
            FormatError: it is not such a list.
        """
        path = location + _LIST
        try:
            found = parse_json(self.read(path, MAX_READ), path, MAX_READ)
        except FileNotFoundError:
            return None
        try:
            return {
                str(key): _Version(str(id_), str(e_tag), int(size))
                for key, (id_, e_tag, size) in found.items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise FormatError(f"{path} is not a list of versions: {error!r}") from error

    def list_moved(self, location: str, listed: _Listed) -> None:
        """Create the list of a moved directory, or add to that of a process that died.

        Raises:
            PermanentError: it would have too many objects.
            TransientError: another process writes it at the same time.
        """
        path = location + _LIST
        read = self.entry_or_none(path)  # first: what is read may be newer, and is then refused
        there = self.listed(location) or {}
        wanted = {**there, **listed}
        if len(wanted) > _MOST:
            raise PermanentError(f"{location} would list {len(wanted)} objects; most: {_MOST}")
        content = json.dumps(wanted).encode("utf-8", "surrogatepass")
        try:
            if read is None:
                self.create(path, content)
            elif wanted != there:
                self.replace(path, content, read.version)
        except FileExistsError as error:
            raise TransientError(f"{path} is written by another process") from error

    def forget(self, location: str) -> None:
        """Remove the list of a moved directory."""
        folder, _, name = location.rpartition("/")
        self.remove_names(folder, [name + _LIST])

    def put_folder(self, location: str) -> None:
        """Write the marker of a directory."""
        with self.request(location):
            self.clients.boto.put_object(Bucket=self.bucket, Key=self.key(location), Body=b"")

    def _moved(self, location: str, origin: str, name: str) -> Moved | None:
        listed = self.listed(f"{location}/{name}")
        if listed is None:
            return None
        keys = self.keys(f"{origin}/{name}")
        sizes = [
            version.size
            for key, version in listed.items()
            if not _is_folder(key) and key in keys and version in keys[key].versions
        ]
        others = [
            key
            for key, at in keys.items()
            if at.current and not _is_folder(key) and at.current[0] != listed.get(key)
        ]
        return Moved(len(sizes), sum(sizes), is_partly_back=not others)

    def _has_versions(self) -> bool:
        """Whether a removal leaves a version now; not while they are suspended."""
        with suppress(PermissionError), self.request(self.root):
            try:
                answer = self.clients.boto.get_bucket_versioning(Bucket=self.bucket)
            except ClientError as error:
                if _code(error) == "NotImplemented":
                    return False
                raise
            return bool(answer.get("Status") == "Enabled")
        return False


def _marker_over(version: _Version, key: _Key, path: str) -> str | None:
    """The delete marker that hides a version; None: nothing does.

    Raises:
        FileExistsError: the object was written again.
        TransientError: the version is gone.
    """
    if _is_folder(path):
        return key.hidden_by if version in key.versions[:1] else None
    if version not in key.versions:
        raise TransientError(f"{path}: its version {version.id} is gone")
    if key.versions[0] != version:
        raise FileExistsError(path)
    return key.hidden_by


def _is_folder(key: str) -> bool:
    """Whether a key is the marker of a directory, which has no content."""
    return key.endswith("/") or not key


def _code(error: ClientError) -> str:
    return str(error.response["Error"].get("Code"))


def _overlaps(prefix: str, rule: Mapping[str, Any]) -> bool:
    """Whether a lifecycle rule may match keys below a prefix."""
    chosen = rule.get("Filter", {})
    its = chosen.get("Prefix", chosen.get("And", {}).get("Prefix", rule.get("Prefix", "")))
    return prefix.startswith(its) or its.startswith(prefix)


def _ends(rule: Mapping[str, Any], keep: timedelta) -> bool:
    """Whether a lifecycle rule removes versions or lists, or archives versions, before a time."""
    expiration, noncurrent = rule.get("Expiration", {}), rule.get("NoncurrentVersionExpiration", {})
    days = [expiration.get("Days"), noncurrent.get("NoncurrentDays")]
    moves = rule.get("NoncurrentVersionTransitions", ())
    days += [it.get("NoncurrentDays") for it in moves if it["StorageClass"] in _ARCHIVES]
    return "Date" in expiration or any(n is not None and n * _DAY < keep for n in days)
