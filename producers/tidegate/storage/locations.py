"""Locations: one spelling for every path, so that two of them can be compared."""

from __future__ import annotations

import os
import posixpath
from typing import Final
from urllib.parse import unquote, urlsplit

from tidegate.errors import FormatError

_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3"}


def normalise(location: str) -> str:
    """Give a location its one spelling: an absolute path, or `scheme://authority/path`.

    `file:/x`, `file:///x` and `/x` are one place, and so are Hadoop's `s3a://` and `s3://`.
    Links are not followed here.

    Raises:
        FormatError: it is relative, or steps upwards with `..`.
    """
    scheme, authority, path = _split(location)
    if not path.startswith("/") or ".." in path.split("/") or "\x00" in path:
        raise FormatError(f"a location is an absolute path or URI without '..', not {location!r}")
    clean = posixpath.normpath("/" + path.lstrip("/"))
    if scheme in ("", "file"):
        return clean
    return f"{_SAME_STORE.get(scheme, scheme)}://{authority}{clean if clean != '/' else ''}"


def _split(location: str) -> tuple[str, str, str]:
    if location.startswith("/"):
        return "", "", location
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return parts.scheme, "", unquote(parts.path) if parts.scheme else location
    return parts.scheme, parts.netloc, location.split("://", 1)[-1][len(parts.netloc) :] or "/"


def join(location: str, *names: str) -> str:
    """Append names (each may hold slashes; empty ones are left out)."""
    return "/".join([location.rstrip("/"), *(name.strip("/") for name in names if name.strip("/"))])


def is_below(location: str, root: str) -> bool:
    """Whether a normalised location lies strictly below a normalised root, by name alone."""
    return location != root and location.startswith(root.rstrip("/") + "/")


def local_path(location: str) -> str | None:
    """The real path of a local location with every link followed, or None for a remote one."""
    return None if "://" in location else os.path.realpath(location)
