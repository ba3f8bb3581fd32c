"""Normalise locations, so that two spellings of one path compare equal.

The identity of a place: `s3`, `s3a` and `s3n` are one scheme, and schemes have no case. `file:` and
plain paths are one place. An authority (bucket, cluster) is compared as it is written.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Final

from tidegate.errors import FormatError

_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3"}
_LOCAL: Final = ("file", "local")  # the second is fsspec's own name for the first
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)


def normalise(location: str) -> str:
    """Return the canonical spelling: an absolute path, or `scheme://authority/path`.

    `file:/x`, `file:///x` and `/x` are the same location, and so are `s3a://` and `s3://`.
    As in Hadoop's `Path`, nothing is decoded: `%`, `?` and `#` are ordinary characters.
    Symbolic links are not resolved.

    Raises:
        FormatError: it is relative, contains `..` or a NUL, or is a `file:` URI with a host.
    """
    scheme, authority, path = _split(location)
    if not path.startswith("/") or ".." in path.split("/") or "\x00" in location:
        raise FormatError(f"not an absolute path or URI without '..': {location!r}")
    clean = posixpath.normpath("/" + path.lstrip("/"))
    if scheme:
        return f"{_SAME_STORE.get(scheme, scheme)}://{authority}{clean if clean != '/' else ''}"
    if authority:
        raise FormatError(
            f"{location!r} is a file URI with the host {authority!r}: write file:///path"
        )
    return clean


def _split(location: str) -> tuple[str, str, str]:
    """Scheme (empty for a local path), authority and path, split as Hadoop's `Path` does."""
    found = _URI.fullmatch(location)
    if found is None:
        return "", "", location
    scheme, authority, path = found[1].lower(), found[2], found[3] or ""
    if scheme in _LOCAL:
        return "", authority or "", path
    return (scheme, authority, path or "/") if authority is not None else (scheme, "", "")


def join(location: str, *names: str) -> str:
    """Append path components; each may contain slashes, empty ones are ignored."""
    joined = location.rstrip("/")
    for name in names:
        if stripped := name.strip("/"):
            joined = f"{joined}/{stripped}"
    return joined


def is_below(location: str, root: str) -> bool:
    """Whether a normalised location is strictly below a normalised root, comparing names only."""
    return location != root and location.startswith(root.rstrip("/") + "/")


def place_of(location: str) -> str:
    """The place of a normalised location: `scheme://authority`, or "" for local file systems."""
    scheme, sign, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""


def local_path(location: str) -> str | None:
    """The path of a local location with all symbolic links resolved; None for a remote one."""
    return None if place_of(location) else os.path.realpath(location)
