"""Very many lines, printed in another order than they come in."""

from __future__ import annotations

import json
from tempfile import TemporaryFile
from typing import Any, Self

from tidegate.cli.output import write_ascii


class LaterLines:
    """JSON objects that are printed in another order than they come in, a line each.

    Meanwhile they lie in a file without a name: in memory are only the keys that they are sorted
    by, and where each begins.
    """

    def __init__(self) -> None:
        """Open the file."""
        self._file = TemporaryFile()  # noqa: SIM115 - closed when this is left
        self._places: list[tuple[Any, int]] = []

    def __enter__(self) -> Self:
        """As it is."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file."""
        self._file.close()

    def add(self, key: object, value: object) -> None:
        """Keep an object under its key; all keys can be compared with each other."""
        self._places.append((key, self._file.tell()))
        self._file.write(json.dumps(value).encode("ascii") + b"\n")

    def write(self) -> int:
        """Print them in the order of their keys; return how many there are."""
        for _, at in sorted(self._places):
            self._file.seek(at)
            write_ascii(self._file.readline())
        return len(self._places)
