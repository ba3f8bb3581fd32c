"""What is in a table's or partition's directory, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file somewhere below an ACID directory; a link counts as a file."""

    name: str
    size: int
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """An entry with the name of an ACID directory, and all files below it.

    `is_plain` is false for a file or a link of such a name.
    """

    name: str
    path: str
    files: tuple[ListedFile, ...] = ()
    is_plain: bool = True

    @property
    def size(self) -> int:
        """Bytes in its files; a link's target is not counted."""
        return sum(file.size for file in self.files if not file.is_link)
