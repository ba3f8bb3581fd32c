"""`hoodie.properties`: the declarations of a table, and the edit that Tidegate makes."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final, Self

from tidegate.errors import FormatError
from tidegate.hudi.instant import COMPACTIONS, Action, Layout

METADATA_PARTITIONS: Final = (
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
)
"""The keys that declare the metadata table to readers."""

_LAYOUT_TWO_FROM: Final = 8
_LINE: Final = re.compile(r"\s*((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties that savepoints and restores depend on; `values` has all of them."""

    name: str
    version: int
    layout: Layout
    table_type: str
    values: dict[str, str]

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse the Java properties file.

        Raises:
            FormatError: a property that every Hudi table has is missing or invalid.
        """
        values = dict(filter(None, map(_entry, _lines(content))))
        try:
            version = int(values["hoodie.table.version"])
            default_layout = Layout.TWO if version >= _LAYOUT_TWO_FROM else Layout.ONE
            layout = Layout(int(values.get("hoodie.timeline.layout.version", default_layout)))
            kind = values.get("hoodie.table.type", "COPY_ON_WRITE")
            return cls(values["hoodie.table.name"], version, layout, kind, values)
        except (KeyError, ValueError) as error:
            raise FormatError(f"hoodie.properties: {type(error).__name__} {error}") from error

    @property
    def timeline_folder(self) -> str:
        """The folder of the instants, relative to the table."""
        if self.layout is Layout.ONE:
            return ".hoodie"
        return f".hoodie/{self.values.get('hoodie.timeline.path') or 'timeline'}"

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of instants; None: LOCAL, the writer's own."""
        return (
            UTC if self.values.get("hoodie.table.timeline.timezone", "").upper() == "UTC" else None
        )

    @property
    def is_merge_on_read(self) -> bool:
        """Whether readers merge log files with base files."""
        return self.table_type == "MERGE_ON_READ"

    @property
    def rolled_back_by_request(self) -> frozenset[Action]:
        """Actions that a restore compares by requested time (see `Timeline.completed_after`)."""
        return COMPACTIONS if self.is_merge_on_read else frozenset()

    @property
    def database(self) -> str | None:
        """The table's database, if its writer named one (Spark's `default` does not count)."""
        named = self.values.get("hoodie.database.name", "")
        return None if named in ("", "default") else named

    @property
    def is_bootstrapped(self) -> bool:
        """Whether base files may lie outside the table."""
        return bool(self.values.get("hoodie.bootstrap.base.path"))


def without(content: bytes, keys: Collection[str]) -> bytes:
    """Remove keys from the file and leave every other byte as it is.

    `hoodie.table.checksum` stays valid: it covers only the table's name.
    """
    return b"".join(
        line
        for line in content.splitlines(keepends=True)
        if (_entry(line.decode("latin-1").rstrip("\r\n")) or ("", ""))[0] not in keys
    )


def _lines(content: bytes) -> list[str]:
    # java.util.Properties reads and writes ISO 8859-1 and \uXXXX
    return content.decode("latin-1").splitlines()


def _entry(line: str) -> tuple[str, str] | None:
    match = _LINE.fullmatch(line)
    if match is None or line.lstrip()[:1] in {"#", "!"}:
        return None
    return _plain(match[1]), _plain(match[2])


def _plain(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)
