"""Locked jars: from the cache or fetched, and never used before their hash is checked.

Every call hashes every jar. Comparing size and time would be some 50 ms quicker, but miss a
jar that was replaced; a JVM takes a second to start anyway.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.local.embedded.ivy import fetch
from tidegate.local.embedded.lock import JarLock, read_lock

log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """The directory of downloads: TIDEGATE_CACHE_DIR, or the user's cache directory."""
    chosen = os.environ.get("TIDEGATE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    # imported here: the light install has no platformdirs
    from platformdirs import user_cache_path  # noqa: PLC0415

    return user_cache_path("tidegate")


def resolve(lock: str | Path) -> tuple[Path, ...]:
    """The jars of a lock, in its order; fetches those that are not in the cache.

    A jar in the cache that is not the locked one is replaced. Any number of processes may call at
    once: one fetches, the others wait for it.

    Args:
        lock: The name of a lock of this package ("kafka", "hudi"), or the path of any other.

    Raises:
        ConfigError: no such lock; no Java or Ivy to fetch with; or what was fetched is not what
            the lock says, and then none of it was put in place.
        TransientError: the repository could not be reached.
    """
    name, content = read_lock(lock)
    folder = cache_dir() / "jars" / name
    jars = tuple(folder / jar.name for jar in content.jars)
    if _is_complete(content, folder):
        return jars
    folder.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(folder):
        if not _is_complete(content, folder):
            _fill(name, content, folder)
    return jars


def _is_complete(content: JarLock, folder: Path) -> bool:
    return all(jar.is_at(folder / jar.name) for jar in content.jars)


def _fill(name: str, content: JarLock, folder: Path) -> None:
    # beside its target, so that the renames stay within one file system
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as draft:
        log.info("fetching %d jars for %s", len(content.jars), name)
        fetched = fetch(content, Path(draft))
        for jar in content.jars:
            if not jar.is_at(fetched / jar.name):
                raise ConfigError(
                    f"{jar.name}, fetched for {name}, is not the jar of the lock"
                    f" (sha256 {jar.sha256}); nothing of it was used"
                )
        for jar in content.jars:
            (fetched / jar.name).replace(folder / jar.name)


@contextmanager
def _one_at_a_time(folder: Path) -> Generator[None]:
    with (folder.parent / f".{folder.name}.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
