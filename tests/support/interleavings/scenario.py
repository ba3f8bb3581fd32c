"""What a bounded world has: its readers, its vacuums, its names, and how much may go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DATABASE: Final = "default"
TABLE: Final = "t"
NAME: Final = f"hive.{DATABASE}.{TABLE}"
PARTITION: Final = "p=1"
LOCATION: Final = "/wh/t"

Role = Literal["partition", "table", "database", "elsewhere", "one by one"]
"""What a reader locks. One that locks another table only never ends: no cleaning waits for it. One
that locks its tables one by one has locked another table before it locks this one."""
Kind = Literal["minor", "major"]
Writing = Literal["deletes", "overwrites"]
"""What a writer does beside its insert: it deletes a row, or all rows that were there before."""
Faults = frozenset[
    Literal["bridge dies", "gate dies", "cleaner dies", "cleaner lives on", "lag", "repeated"]
]
FAULTS: Final[Faults] = frozenset(
    {"bridge dies", "gate dies", "cleaner dies", "cleaner lives on", "lag", "repeated"}
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A world before its first step.

    Attributes:
        hive: 4: a compaction has a transaction, and its directories become visible with it. 3: it
            has none, and they are visible once they are renamed.
        vacuums: Their kinds, in order. The second begins any time after the first has committed.
        readers: What each of them locks. Each takes its snapshot, then its lock, then lists the
            directories, then reads; each at any time.
        dies: The reader that dies instead of ending; its lock goes when it times out. None: none.
        writer: What a transaction does meanwhile, to commit or to abort. None: there is none.
        faults: How many things go wrong, of those in `kinds_of_faults`.
    """

    hive: Literal[3, 4]
    vacuums: tuple[Kind, ...]
    readers: tuple[Role, ...]
    dies: int | None = None
    writer: Writing | None = None
    faults: int = 0
    kinds_of_faults: Faults = FAULTS

    @property
    def title(self) -> str:
        """In a line."""
        dies = "" if self.dies is None else f", reader {self.dies + 1} dies"
        writer = "" if self.writer is None else f", a writer that {self.writer}"
        return (
            f"Hive {self.hive}, {' then '.join(self.vacuums)}, readers of"
            f" {', '.join(self.readers)}{dies}{writer}, {self.faults} faults"
        )
