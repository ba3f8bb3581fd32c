"""Write a jar lock: for the maintainer who moves to a new version.

PYTHONPATH=tests python -m support.jar_locks kafka.json org.apache.kafka:kafka_2.13:4.3.1
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tidegate.embedded.jars import _JarLock, _LockedJar, fetch


def make_lock(
    coordinates: tuple[str, ...], *, transitive: bool = True, exclusions: tuple[str, ...] = ()
) -> _JarLock:
    """Fetch what the coordinates stand for today and lock it, in the order of the file names.

    Raises:
        TransientError: the repository could not be reached, or does not have it.
    """
    wanted = _JarLock(
        coordinates=coordinates, transitive=transitive, exclusions=exclusions, jars=()
    )
    with tempfile.TemporaryDirectory() as draft:
        fetched = sorted(fetch(wanted, Path(draft)).iterdir())
        return wanted.model_copy(update={"jars": tuple(_locked(jar) for jar in fetched)})


def _locked(jar: Path) -> _LockedJar:
    content = jar.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return _LockedJar(name=jar.name, sha256=digest, size=len(content))


def main(
    target: Annotated[Path, typer.Argument(help="the lock to write")],
    coordinates: Annotated[
        list[str], typer.Argument(help="group:artifact:version[:classifier@ext]")
    ],
    *,
    transitive: Annotated[bool, typer.Option(help="also what they depend on")] = True,
    exclude: Annotated[list[str] | None, typer.Option(help="group:artifact to leave out")] = None,
) -> None:
    """Write a lock with the hashes of what the repository gives now."""
    lock = make_lock(tuple(coordinates), transitive=transitive, exclusions=tuple(exclude or ()))
    target.write_text(lock.dumps(), encoding="utf-8")
    typer.echo(f"{target}: {len(lock.jars)} jars, {sum(jar.size for jar in lock.jars):,} bytes")


if __name__ == "__main__":
    typer.run(main)
