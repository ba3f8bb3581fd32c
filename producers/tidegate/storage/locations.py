"""Locations: one spelling for every path, so that two of them can be compared."""

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
    """Give a location its one spelling: an absolute path, or `scheme://authority/path`.

    `file:/x`, `file:///x` and `/x` are one place, and so are Hadoop's `s3a://` and `s3://`.
    As in Hadoop's `Path`, nothing is decoded: `%`, `?` and `#` are parts of a name like any other.
    Links are not followed here.

    Raises:
        FormatError: it is relative, steps upwards with `..`, holds a NUL, or is a file on a named
            host.
    """
    scheme, authority, path = _split(location)
    if not path.startswith("/") or ".." in path.split("/") or "\x00" in location:
        raise FormatError(f"a location is an absolute path or URI without '..', not {location!r}")
    clean = posixpath.normpath("/" + path.lstrip("/"))
    if scheme:
        return f"{_SAME_STORE.get(scheme, scheme)}://{authority}{clean if clean != '/' else ''}"
    if authority:
        raise FormatError(f"{location!r} names the host {authority!r}: write file:///path")
    return clean


def _split(location: str) -> tuple[str, str, str]:
    """Scheme (empty for a local path), authority and path, cut as Hadoop's `Path` cuts them."""
    found = _URI.fullmatch(location)
    if found is None:
        return "", "", location
    scheme, authority, path = found[1].lower(), found[2], found[3] or ""
    if scheme in _LOCAL:
        return "", authority or "", path
    return (scheme, authority, path or "/") if authority is not None else (scheme, "", "")


def join(location: str, *names: str) -> str:
    """Append names (each may hold slashes; empty ones are left out)."""
    return "/".join([location.rstrip("/"), *(name.strip("/") for name in names if name.strip("/"))])


def is_below(location: str, root: str) -> bool:
    """Whether a normalised location lies strictly below a normalised root, by name alone."""
    return location != root and location.startswith(root.rstrip("/") + "/")


def local_path(location: str) -> str | None:
    """The real path of a local location with every link followed, or None for a remote one."""
    return None if "://" in location else os.path.realpath(location)
