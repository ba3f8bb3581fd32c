"""A jar lock: the wanted artifacts, and their jars by hash when it was made."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from tidegate.errors import ConfigError
from tidegate.errors.validation import validation_message

_LOCKS: Final = Path(__file__).parent / "locks"

Coordinate = Annotated[
    str, StringConstraints(pattern=r"^[^:@\s]+:[^:@\s]+:[^:@\s]+(:[^:@\s]+@[a-z.]+)?$")
]
"""`group:artifact:version`, or `group:artifact:version:classifier@ext` for another of its files."""

Exclusion = Annotated[str, StringConstraints(pattern=r"^[^:\s]+:[^:\s]+$")]
"""`group:artifact`; `*` stands for any."""


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def tree_digest(folder: Path) -> str:
    """SHA-256 in hex of every file below a folder, by path and content; a link is not a file."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            digest.update(f"{name} -> {path.readlink()}\n".encode())
        elif path.is_file():
            digest.update(f"{name}\0{_sha256(path)}\n".encode())
    return digest.hexdigest()


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into an empty folder; returns the one folder that is in it."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    [only] = folder.iterdir()
    return only


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class LockedJar(BaseModel, frozen=True):
    """A jar, or an archive of jars: file name, SHA-256 of its bytes in hex, size in bytes."""

    name: Annotated[str, StringConstraints(pattern=r"^[^/\\]+\.(jar|tar\.gz)$")]
    sha256: Sha256
    size: Annotated[int, Field(gt=0)]
    unpacked: Sha256 | None = None
    """Of an archive: the `tree_digest` of the one folder that it unpacks to."""

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is this jar, byte for byte."""
        try:
            if path.stat().st_size != self.size:
                return False
            return _sha256(path) == self.sha256
        except FileNotFoundError:
            return False


class JarLock(BaseModel, frozen=True):
    """What to fetch, and the expected jars, in the order of the class path."""

    coordinates: Annotated[tuple[Coordinate, ...], Field(min_length=1)]
    transitive: bool
    exclusions: tuple[Exclusion, ...] = ()
    jars: tuple[LockedJar, ...]

    def dumps(self) -> str:
        """Write the lock as it stands in its file."""
        return self.model_dump_json(indent=2, exclude_none=True) + "\n"


def read_lock(lock: str | Path) -> tuple[str, JarLock]:
    """Read a lock: a `str` names one of the package's own, a `Path` is any file.

    Returns:
        Its name (the file's stem) and its content.

    Raises:
        ConfigError: there is no such lock, or it is not one.
    """
    path = lock if isinstance(lock, Path) else _LOCKS / f"{lock}.json"
    try:
        return path.stem, JarLock.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        known = ", ".join(sorted(path.stem for path in _LOCKS.glob("*.json")))
        raise ConfigError(f"no jar lock at {path}; the package has: {known}") from error
    except ValidationError as error:
        raise ConfigError(f"{path} is not a jar lock: {validation_message(error)}") from error
