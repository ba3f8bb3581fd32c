"""Where a warehouse root may be: on local and mounted file systems, on S3 and on HDFS."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tidegate.errors import ConfigError, PermanentError, TransientError
from tidegate.storage import NotFound, local_path, normalise
from tidegate.storage.locations import place_of
from tidegate.tables.warehouse import Warehouse


def remote(roots: Sequence[str]) -> list[str]:
    """The roots that are not on a local or mounted file system."""
    return [root for root in roots if local_path(normalise(root)) is None]


def require_stores(roots: Sequence[str]) -> None:
    """Refuse roots in places where Tidegate changes no table.

    Raises:
        ConfigError: it names them.
    """
    places = ("s3:", "hdfs:")
    if found := [r for r in remote(roots) if not place_of(normalise(r)).startswith(places)]:
        raise ConfigError(
            f"warehouse roots where Tidegate changes no table: {', '.join(found)}. It does so on"
            " local and mounted file systems, on S3 and on HDFS. Mount the store as a file system,"
            " and list the mounted path"
        )


def require_places(warehouse: Warehouse) -> None:
    """Refuse roots whose client is not installed, or whose bucket or cluster does not exist.

    A server that does not answer, or denies access, may do so later: commands are retried.

    Raises:
        ConfigError: it names the root.
    """
    for root in remote(warehouse.roots.roots):
        try:
            with suppress(NotFound, TransientError, PermissionError):
                warehouse.names(root)
        except (ConfigError, PermanentError) as error:
            raise ConfigError(f"warehouse root {root}: {error}") from error


def on_object_stores(roots: Sequence[str]) -> list[str]:
    """The roots in places that can't rename a directory at once."""
    return [root for root in remote(roots) if place_of(normalise(root)).startswith("s3:")]


def require_renames(roots: Sequence[str]) -> None:
    """Refuse to quarantine on stores that can't rename a directory at once.

    Raises:
        ConfigError: it names the roots, and the settings that delete instead.
    """
    if found := on_object_stores(roots):
        raise ConfigError(
            f"cleaning would quarantine, but object stores have no atomic rename:"
            f' {", ".join(found)}. Set mode = "delete" in [cleaning] and its rules, and'
            ' after_expiry = "delete": what is cleaned after a lock that expired is then gone at'
            " once"
        )
