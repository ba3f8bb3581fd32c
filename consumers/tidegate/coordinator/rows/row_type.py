"""Row types: the tables of the coordinator's database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowType:
    """A table of SQLite, with the columns that the changelog has, and derived ones.

    The first column is `tbl`, the table's identity. The columns hold integers or NULL, `body` holds
    JSON.
    """

    name: str
    columns: tuple[str, ...] = ()
    key: str | None = None
    """The second column of the primary key, an integer; None: one row a table."""
    has_body: bool = False
    derived: tuple[str, ...] = ()
    """Columns that are not in the changelog."""
    indexes: tuple[str, ...] = ()
    """SQL behind `create index`."""

    @property
    def schema(self) -> str:
        """The SQL that creates it."""
        key = ("tbl", self.key) if self.key else ("tbl",)
        body = ("body",) if self.has_body else ()
        columns = ", ".join((*key, *self.columns, *body, *self.derived))
        # rows with large bodies are slow in the tree of a table without row ids
        suffix = "" if self.has_body else " without rowid"
        indexes = "".join(f"create index {index};" for index in self.indexes)
        table = f"create table {self.name} ({columns}, primary key ({', '.join(key)})){suffix};"
        return table + indexes

    @property
    def insert(self) -> str:
        """The SQL that inserts or replaces a row."""
        fields = 1 + bool(self.key) + len(self.columns) + self.has_body + len(self.derived)
        return f"insert or replace into {self.name} values ({', '.join('?' * fields)})"  # noqa: S608

    @property
    def delete(self) -> str:
        """The SQL that removes a row."""
        where = f"tbl = ? and {self.key} = ?" if self.key else "tbl = ?"
        return f"delete from {self.name} where {where}"  # noqa: S608
