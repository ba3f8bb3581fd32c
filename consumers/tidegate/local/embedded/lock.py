"""A jar lock: the wanted artifacts, and their jars by hash when it was made."""

from __future__ import annotations

import hashlib
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


class LockedJar(BaseModel, frozen=True):
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


class JarLock(BaseModel, frozen=True):
    """What to fetch, and the expected jars, in the order of the class path."""

    coordinates: Annotated[tuple[Coordinate, ...], Field(min_length=1)]
    transitive: bool
    exclusions: tuple[Exclusion, ...] = ()
    jars: tuple[LockedJar, ...]

    def dumps(self) -> str:
        """Write the lock as it stands in its file."""
        return self.model_dump_json(indent=2) + "\n"


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
