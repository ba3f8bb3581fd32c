"""Locks of jars for tests, and what writes one: for the maintainer who moves to a new version.

PYTHONPATH=tests python -m support.jar_locks kafka.json org.apache.kafka:kafka_2.13:4.3.1
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Annotated
from xml.etree.ElementTree import Element, SubElement, tostring

import typer

from tidegate.embedded import jars
from tidegate.embedded.jars import _JarLock, _LockedJar

_MAVEN = "http://ant.apache.org/ivy/maven"
_WITHOUT_POMS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""Ivy's own public repository. A pom whose parent is missing would stop Ivy, and jars without
dependencies need none."""


class ChosenJars(_JarLock, frozen=True):
    """A lock that leaves out some or all dependencies, and may have other files than jars.

    A coordinate may be `group:artifact:version:classifier@ext`.
    """

    transitive: bool = True
    exclusions: tuple[str, ...] = ()
    """`group:artifact`, or `*` in place of either."""

    def fetch(self, folder: Path) -> Path:
        """Fetch what the lock stands for today."""
        settings = folder / "ivysettings.xml"
        settings.write_text(_WITHOUT_POMS, encoding="utf-8")
        return self.run_ivy(folder, self._module(), None if self.transitive else str(settings))

    def _module(self) -> str:
        module = Element("ivy-module", {"version": "2.0", "xmlns:m": _MAVEN})
        SubElement(module, "info", organisation="tidegate", module="locked")
        SubElement(SubElement(module, "configurations"), "conf", name="default")
        dependencies = SubElement(module, "dependencies")
        for coordinate in self.coordinates:
            group, artifact, version, *file = coordinate.split(":")
            wanted = {"org": group, "name": artifact, "rev": version, "conf": "default"}
            wanted |= {"transitive": str(self.transitive).lower()}
            dependency = SubElement(dependencies, "dependency", wanted)
            for part in file:
                classifier, ext = part.split("@")
                named = {"name": artifact, "type": ext, "ext": ext, "m:classifier": classifier}
                SubElement(dependency, "artifact", named)
        for exclusion in self.exclusions:
            group, artifact = exclusion.split(":")
            SubElement(dependencies, "exclude", {"org": group, "module": artifact})
        document: str = tostring(module, encoding="unicode", xml_declaration=True)
        return document


def resolve(lock: Path) -> tuple[Path, ...]:
    """The files of a test's lock, in its order; fetches those that are not in the cache."""
    return jars.resolve(lock, ChosenJars)


def make_lock(
    coordinates: tuple[str, ...], *, transitive: bool = True, exclusions: tuple[str, ...] = ()
) -> ChosenJars:
    """Fetch what the coordinates stand for today and lock it, in the order of the file names.

    Raises:
        TransientError: the repository could not be reached, or does not have it.
    """
    wanted = ChosenJars(
        coordinates=coordinates, transitive=transitive, exclusions=exclusions, jars=()
    )
    with tempfile.TemporaryDirectory() as draft:
        fetched = sorted(wanted.fetch(Path(draft)).iterdir())
        return wanted.model_copy(update={"jars": tuple(_locked(jar) for jar in fetched)})


def dumps(lock: _JarLock) -> str:
    """Write a lock as it stands in its file."""
    return lock.model_dump_json(indent=2, exclude_defaults=True) + "\n"


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
    target.write_text(dumps(lock), encoding="utf-8")
    typer.echo(f"{target}: {len(lock.jars)} jars, {sum(jar.size for jar in lock.jars):,} bytes")


if __name__ == "__main__":
    typer.run(main)
