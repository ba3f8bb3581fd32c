"""Normalise locations, so that two spellings of one path compare equal.

The identity of a place: `s3`, `s3a` and `s3n` are one scheme, so are `gs` and `gcs`, and schemes
have no case. `file:` and plain paths are one place. A container of Azure has one spelling,
`abfss://container@account.dfs.core.windows.net`; the schemes `abfs`, `wasb` and `wasbs`, and the
host `account.blob.core.windows.net`, are the same. An authority (bucket, cluster) is compared as it
is written. On HDFS the default port (8020) is left out, and without an authority the cluster is
that of `fs.defaultFS`. A location of ViewFs is the one that it is mounted from, by the mount table
in Hadoop's configuration.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tidegate.errors import ConfigError, FormatError

_AZURE: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_SAME_STORE: Final = {"gcs": "gs", "s3a": "s3", "s3n": "s3"} | dict.fromkeys(_AZURE, "abfss")
_LOCAL: Final = ("file", "local")  # the second is fsspec's own name for the first
_HDFS_PORT: Final = ":8020"
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)


def normalise(location: str) -> str:
    """Return the canonical spelling: an absolute path, or `scheme://authority/path`.

    `file:/x`, `file:///x` and `/x` are the same location, and so are `s3a://` and `s3://`, or
    `hdfs:/x` and `hdfs://nn:8020/x`, if `nn` is the default cluster, or `viewfs://lake/w/x` and
    `hdfs://nn/warehouse/x`, if that is where `/w` leads.
    As in Hadoop's `Path`, nothing is decoded: `%`, `?` and `#` are ordinary characters.
    Symbolic links are not resolved.

    Raises:
        FormatError: it is relative, contains `..` or a NUL, is a `file:` URI with a host, or is
            mounted nowhere.
        ConfigError: Hadoop's configuration can't be read, or its mount table is not supported.
    """
    scheme, authority, path = _split(location)
    if not path.startswith("/") or ".." in path.split("/") or "\x00" in location:
        raise FormatError(f"not an absolute path or URI, or it has '..': {location!r}")
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
    if scheme == "viewfs":
        return _split(_behind_mount(authority or _default_of("viewfs") or "default", path))
    if scheme == "hdfs":
        return scheme, (authority or _default_of("hdfs")).removesuffix(_HDFS_PORT), path or "/"
    if scheme in _AZURE and authority:
        authority = authority.replace(".blob.", ".dfs.", 1)
    return (scheme, authority, path or "/") if authority is not None else (scheme, "", "")


def _default_of(scheme: str) -> str:
    """The authority of the default file system, if it has this scheme."""
    found = _URI.fullmatch(hadoop_settings().get("fs.defaultFS", ""))
    return found[2] or "" if found and found[1].lower() == scheme else ""


def _behind_mount(table: str, path: str) -> str:
    """The location that a path of ViewFs leads to: the longest mount wins, then the fallback.

    Raises:
        FormatError: none of the table's mounts is above the path.
        ConfigError: the table has a mount that is more than a name for another directory.
    """
    mounts: dict[str, str] = {}
    for name, target in _mounts_of(table).items():
        kind, _, mount = name.partition(".")
        if kind in {"link", "linkFallback", "linkMergeSlash"}:
            mounts[mount.rstrip("/")] = target.rstrip("/")
        elif kind != "homedir":
            raise ConfigError(f"viewfs://{table} has a mount that is not supported: {kind}")
        if target.lower().startswith("viewfs:"):
            raise ConfigError(f"viewfs://{table} has a mount of another ViewFs: {target}")
    clean = "/" + "/".join(name for name in path.split("/") if name not in {"", "."})
    above = [mount for mount in mounts if f"{clean}/".startswith(f"{mount}/")]
    if not above:
        raise FormatError(f"viewfs://{table}{path} is mounted nowhere: see core-site.xml")
    mount = max(above, key=len)
    return mounts[mount] + clean[len(mount) :]


def _mounts_of(table: str) -> Mapping[str, str]:
    """The settings of a mount table, without what their names have in common."""
    above = f"fs.viewfs.mounttable.{table}."
    found = hadoop_settings().items()
    return {name[len(above) :]: target for name, target in found if name.startswith(above)}


def hadoop_settings() -> Mapping[str, str]:
    """The settings of core-site.xml and hdfs-site.xml, where Hadoop's clients look for them.

    Raises:
        ConfigError: a file can't be read.
    """
    home = os.environ.get("HADOOP_HOME")
    return _settings(os.environ.get("HADOOP_CONF_DIR") or (home and f"{home}/etc/hadoop"))


@cache
def _settings(folder: str | None) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml") if folder else ():
        path = Path(folder or "", name)
        try:
            properties = ET.parse(path).iter("property")  # noqa: S314 - the machine's own
        except FileNotFoundError:
            continue
        except (OSError, ET.ParseError) as error:
            raise ConfigError(f"{path} can't be read: {error}") from error
        found |= {
            p.findtext("name", "").strip(): p.findtext("value", "").strip() for p in properties
        }
    return found


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
