"""Are the warehouse roots there, and can they be worked in."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.doctor.finding import Finding, State
from tidegate.errors import TidegateError
from tidegate.storage import NotFound, is_below, join, local_path, normalise
from tidegate.warehouse import Warehouse, WarehouseRoots

PROBE = ".tidegate-doctor"
"""The hidden file that `--write` makes in each root, and removes."""


def root_usable(
    root: str,
    roots: Sequence[str],
    options: dict[str, dict[str, object]],
    *,
    probe: str | None,
) -> Finding:
    """Whether a root is there, can be listed, and lies apart from the others.

    Args:
        root: The root.
        roots: All roots.
        options: fsspec's options, by protocol.
        probe: The name of a file to create and remove in it; None: nothing is written.

    Raises:
        ConfigError: it is no absolute location, or a whole file system.
    """
    check = f"root {root}"
    warehouse = Warehouse(WarehouseRoots.of(root), options)
    try:
        found = len(warehouse.list(root))
    except NotFound:
        advice = "create it or mount it, or take it out of [warehouse] roots"
        return Finding(check, State.FAIL, "there is no such directory", advice)
    except OSError as error:
        return Finding(check, State.FAIL, f"it can't be listed: {error}", "let this user list it")
    if outer := enclosing(root, roots):
        return Finding(check, State.WARN, f"it lies in the root {outer}", "name one of them only")
    if probe is None:
        seen = f"{found} entries; run with --write to try writing"
        return Finding(check, State.OK, seen)
    return _written(check, warehouse, join(normalise(root), probe), found)


def enclosing(root: str, roots: Sequence[str]) -> str | None:
    """The other root that a root lies in, by name or by its links."""
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
        advice = "let this user write and remove there"
        return Finding(check, State.FAIL, f"nothing can be made in it: {error}", advice)
    return Finding(check, State.OK, f"{found} entries; a file was made and removed")


def _places(root: str) -> set[str]:
    where = normalise(root)
    return {where, local_path(where) or where}
