"""Check that the warehouse roots exist and can be read and written."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import TidegateError
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.service.stores import HDFS_REMOVES_ELSEWHERE, KNOWN_FAULTS, on_hdfs
from tidegate.storage import NotFound, is_below, join, local_path, normalise
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

PROBE = ".tidegate-doctor"
"""The hidden file that `--write` creates in each root, and removes."""


def check_root(
    root: str,
    roots: Sequence[str],
    options: dict[str, dict[str, object]],
    *,
    probe: str | None,
) -> Finding:
    """Whether a root exists, can be listed, and does not overlap another one.

    Args:
        root: The root.
        roots: All roots.
        options: fsspec's options, by protocol.
        probe: The name of a file to create in it and remove; None: write nothing.

    Raises:
        ConfigError: the root is not an absolute location, or is a complete file system.
    """
    check = f"root {root}"
    warehouse = Warehouse(WarehouseRoots.of(root), options)
    try:
        found = len(warehouse.list(root))
    except NotFound:
        advice = "create or mount it, or remove it from [warehouse] roots"
        return Finding(check, Status.FAIL, "this directory does not exist", advice)
    except OSError as error:
        return Finding(
            check, Status.FAIL, f"can't be listed: {error}", "grant this user read access"
        )
    if outer := enclosing(root, roots):
        return Finding(
            check, Status.WARN, f"it is inside the root {outer}", "keep only one of them"
        )
    if probe is None:
        seen = f"{found} entries; use --write to test writing"
        return Finding(check, Status.OK, seen)
    return _written(check, warehouse, join(normalise(root), probe), found)


def check_store(root: str, *, allowed: bool) -> Finding:
    """The finding for a root on an untested store: refused, or allowed with a warning. Pure."""
    check, seen = f"store {root}", f"this store was never tested; known faults: {KNOWN_FAULTS}"
    if on_hdfs(root):
        advice = "mount HDFS as a file system, and list the mounted path"
        return Finding(check, Status.FAIL, f"refused: {HDFS_REMOVES_ELSEWHERE}", advice)
    if allowed:
        return Finding(check, Status.WARN, seen, "mount it as a file system, if you can")
    advice = "mount it as a file system, or set allow_untested_stores = true in [warehouse]"
    return Finding(check, Status.FAIL, seen, advice)


def enclosing(root: str, roots: Sequence[str]) -> str | None:
    """Another root that contains this one, by name or through links."""
    mine = _places(root)
    for other in roots:
        theirs = _places(other)
        if any(is_below(inner, outer) for inner in mine for outer in theirs):
            return other
    return None


def _written(check: str, warehouse: Warehouse, file: str, found: int) -> Finding:
    try:
        warehouse.create(file, b"")
        warehouse.remove_files([file])
    except (OSError, TidegateError) as error:
        advice = "grant this user the right to write and remove there"
        return Finding(check, Status.FAIL, f"can't create a file: {error}", advice)
    return Finding(check, Status.OK, f"{found} entries; a file was created and removed")


def _places(root: str) -> set[str]:
    where = normalise(root)
    return {where, local_path(where) or where}
