"""Check that the warehouse roots exist and can be read and written."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import ConfigError, PermanentError, TidegateError
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.service.stores import require_stores
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
        options: the options of stores, as `Storage` takes them.
        probe: The name of a file to create in it and remove; None: write nothing.

    Raises:
        ConfigError: the root is not an absolute location, or is a complete file system.
    """
    check = f"root {root}"
    try:
        require_stores([root])
        warehouse = Warehouse(WarehouseRoots.of(root), options)
        found = len(warehouse.list(root))
    except NotFound:
        advice = "create or mount it, or remove it from [warehouse] roots"
        return Finding(check, Status.FAIL, "this directory does not exist", advice)
    except (ConfigError, PermanentError) as error:
        return Finding(check, Status.FAIL, str(error), "correct [warehouse] roots and stores")
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
        limits = warehouse.limits(file)
    except (OSError, TidegateError) as error:
        advice = "grant this user the right to write and remove there"
        return Finding(check, Status.FAIL, f"can't create a file: {error}", advice)
    seen = "; ".join([f"{found} entries", "a file was created and removed", *limits])
    return Finding(check, Status.OK, seen)


def _places(root: str) -> set[str]:
    where = normalise(root)
    return {where, local_path(where) or where}
