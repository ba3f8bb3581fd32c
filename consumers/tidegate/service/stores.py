"""Which stores a warehouse root may be on: only local and mounted file systems are tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import fsspec

from tidegate.errors import ConfigError
from tidegate.storage import local_path, normalise

KNOWN_FAULTS: Final = (
    "on S3, files whose removal is denied in a bulk request may count as removed; on HDFS,"
    " creating a file only if it is absent is not atomic; a WebHDFS that can't be reached may"
    " appear as an empty directory"
)
"""Known faults of other stores: the reason to refuse such a root."""


OF_HDFS: Final = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})
"""The protocols of HDFS, in fsspec and in Hadoop."""
HDFS_REMOVES_ELSEWHERE: Final = (
    "the client of HDFS ignores the name of the cluster and cuts names at #, ? and ;, so other"
    " directories than those of the tables would be removed"
)
"""Why such a root is refused, whatever risk is accepted."""


def on_hdfs(root: str) -> bool:
    """Whether a root is on HDFS, by its protocol."""
    return normalise(root).partition("://")[0] in OF_HDFS


def untested(roots: Sequence[str]) -> list[str]:
    """The roots that are not on a local or mounted file system."""
    return [root for root in roots if local_path(normalise(root)) is None]


def require_tested_stores(roots: Sequence[str], *, allow_untested: bool) -> None:
    """Refuse roots on stores that Tidegate was never tested on.

    Roots on HDFS are refused even if the risk is accepted: nothing there is removed reliably.

    Raises:
        ConfigError: it names them, the known faults, and the setting that accepts the risk.
    """
    if found := [root for root in roots if on_hdfs(root)]:
        raise ConfigError(
            f"warehouse roots on HDFS: {', '.join(found)}. They are refused, also with"
            f" allow_untested_stores: {HDFS_REMOVES_ELSEWHERE}. Mount HDFS as a file system, and"
            " list the mounted path"
        )
    if (found := untested(roots)) and not allow_untested:
        raise ConfigError(
            f"warehouse roots on stores that were never tested: {', '.join(found)}. Known faults:"
            f" {KNOWN_FAULTS}. Mount the store as a file system, or accept the risk with"
            " allow_untested_stores = true in [warehouse]"
        )


def require_drivers(roots: Sequence[str]) -> None:
    """Refuse roots on stores whose client is not installed: no table on them could be read.

    Raises:
        ConfigError: it names the root, and what to install.
    """
    for root in untested(roots):
        protocol = normalise(root).partition("://")[0]
        try:
            fsspec.get_filesystem_class(protocol)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"warehouse root {root}: {error}") from error


def require_renames(roots: Sequence[str]) -> None:
    """Refuse to quarantine on stores that can't rename a directory at once.

    Raises:
        ConfigError: it names the roots, and the settings that delete instead.
    """
    if found := untested(roots):
        raise ConfigError(
            f"cleaning would quarantine, but object stores have no atomic rename:"
            f' {", ".join(found)}. Set mode = "delete" in [cleaning] and its rules, and'
            ' after_expiry = "delete": what is cleaned after a lock that expired is then gone at'
            " once"
        )
