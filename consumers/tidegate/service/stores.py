"""Where a warehouse root may be: on file systems, on object stores and on HDFS."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from tidegate.errors import ConfigError, PermanentError, TransientError
from tidegate.storage import NotFound, join, local_path, normalise
from tidegate.storage.locations import place_of
from tidegate.tables.warehouse import AlreadyExists, Warehouse


def require_stores(roots: Sequence[str]) -> None:
    """Refuse roots in places where Tidegate changes no table.

    Raises:
        ConfigError: it names them.
    """
    places = ("s3:", "gs:", "abfss:", "hdfs:")
    remote = [root for root in roots if local_path(normalise(root)) is None]
    if found := [root for root in remote if not place_of(normalise(root)).startswith(places)]:
        raise ConfigError(
            f"warehouse roots where Tidegate changes no table: {', '.join(found)}. It does so on"
            " local and mounted file systems, on S3, GCS, Azure and HDFS. Mount the store as a file"
            " system, and list the mounted path"
        )


def require_places(warehouse: Warehouse) -> None:
    """Refuse roots that do not exist, or whose client is not installed.

    A server that does not answer, or denies access, may do so later: commands are retried.

    Raises:
        ConfigError: it names the root.
    """
    for root in warehouse.roots.roots:
        try:
            with suppress(TransientError, PermissionError):
                warehouse.names(root)
        except NotFound as error:
            if local_path(root) is not None:  # in a store a directory need not exist
                raise ConfigError(
                    f"warehouse root {root} does not exist here: create or mount it, or correct"
                    " [warehouse] roots"
                ) from error
        except (ConfigError, PermanentError, NotADirectoryError) as error:
            raise ConfigError(f"warehouse root {root}: {error}") from error


def require_conditional_writes(warehouse: Warehouse) -> None:
    """Refuse to hold the locks of writers on a server that ignores the conditions of a write.

    Raises:
        ConfigError: it names the root.
        TransientError: a store did not answer.
    """
    for root in warehouse.roots.roots:
        try:
            ignores = warehouse.can(root).conditional_writes and _ignores_conditions(
                warehouse, root
            )
        except PermissionError as error:
            raise ConfigError(
                f"warehouse root {root}: hold_lock in [restores] needs the right to write there, to"
                f" try a file of its own: {error}"
            ) from error
        if ignores:
            raise ConfigError(
                f"warehouse root {root}: this server ignores the conditions of a write, so"
                " hold_lock in [restores] can't hold the lock of Hudi's StorageBasedLockProvider"
                " there: set it to false"
            )


def _ignores_conditions(warehouse: Warehouse, root: str) -> bool:
    probe = join(root, f".tidegate-probe-{uuid.uuid4().hex}")
    warehouse.create(probe, b"created")
    try:
        created = warehouse.entry(probe)
        if created is None or created.version is None:
            return True
        warehouse.replace(probe, b"replaced", created.version)
        for write in (warehouse.create, partial(warehouse.replace, if_version=created.version)):
            with suppress(AlreadyExists):
                write(probe, b"again")
                return True
    finally:
        warehouse.remove_files([probe])
    return False


def without_quarantine(warehouse: Warehouse) -> list[str]:
    """The roots where nothing can be put back: no rename, and no versions.

    Raises:
        TransientError: a store did not answer.
    """
    found = ((root, warehouse.can(root)) for root in warehouse.roots.roots)
    return [root for root, can in found if not (can.renames or can.versions)]


def require_quarantine(warehouse: Warehouse, *, keep: timedelta) -> None:
    """Refuse to quarantine where nothing can be put back.

    Raises:
        ConfigError: it names the roots, and the settings that delete instead.
        TransientError: a store did not answer.
    """
    if found := without_quarantine(warehouse):
        raise ConfigError(
            "cleaning would quarantine, but these are not on S3 with versions (or the right"
            f" s3:GetBucketVersioning is missing): {', '.join(found)}. Object stores have no"
            ' rename. Set mode = "delete" in [cleaning] and its rules, and after_expiry = "delete":'
            " what is cleaned after a lock that expired is then gone at once. On GCS and Azure turn"
            " on the bucket's own soft delete or versioning first: Tidegate can't put anything back"
            " there"
        )
    require_kept(warehouse, keep=keep)


def require_kept(warehouse: Warehouse, *, keep: timedelta) -> None:
    """Refuse buckets that remove versions before a quarantine ends.

    Raises:
        ConfigError: it names the rules; or they can't be read.
        TransientError: a store did not answer.
    """
    for root in warehouse.roots.roots:
        if not warehouse.can(root).versions:
            continue
        try:
            rules = warehouse.shortened(root, keep)
        except PermissionError as error:
            raise ConfigError(
                f"warehouse root {root}: grant s3:GetLifecycleConfiguration, to show that the"
                f" bucket keeps versions for as long as a quarantine lasts: {error}"
            ) from error
        if rules:
            raise ConfigError(
                f"warehouse root {root}: the bucket's lifecycle rules remove or archive versions"
                f" before a quarantine ends ({keep}): {', '.join(rules)}. Lengthen them, or"
                " shorten keep in [cleaning] and its rules"
            )
