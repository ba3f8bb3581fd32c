"""Random legal histories of an ACID table: what writers, compactors and cleaners leave behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tidegate.hive.names import Base, Delta
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds

_FIRST_TXN = 100


@dataclass
class History:
    """A table that is written, compacted and looked at. Nothing is cleaned."""

    random: Random
    directories: list[str] = field(default_factory=list)
    write_id: int = 0
    txn: int = _FIRST_TXN
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    open_txns: set[int] = field(default_factory=set)
    aborted_txns: set[int] = field(default_factory=set)
    looks: list[tuple[ValidWriteIds, ValidTxns]] = field(default_factory=list)
    base: int = 0

    def look(self) -> None:
        """Remember what a reader, or a compaction's cleaner, that begins now would see."""
        opened, dead = sorted(self.open), sorted(self.aborted)
        least = opened[0] if opened else NOTHING_OPEN
        ids = ValidWriteIds(
            "default.t", self.write_id, least, IdRanges.of(*opened), IdRanges.of(*dead)
        )
        txns = ValidTxns(
            self.txn,
            min(self.open_txns, default=self.txn + 1),
            IdRanges.of(*self.open_txns),
            IdRanges.of(*self.aborted_txns),
        )
        self.looks.append((ids, txns))

    def write(self) -> None:
        """One transaction: inserts and deletes in some statements; it commits, aborts or stays."""
        self.write_id += 1
        for statement in range(self.random.choice((1, 1, 1, 2, 3))):
            kinds = self.random.choice(((False,), (False,), (True,), (False, True)))
            for deletes in kinds:
                delta = Delta(self.write_id, self.write_id, statement, deletes=deletes)
                self.directories.append(delta.name)
        self._end()

    def overwrite(self) -> None:
        """An insert overwrite: a base without a visibility transaction."""
        self.write_id += 1
        self.directories.append(Base(self.write_id).name)
        self._end()

    def _end(self) -> None:
        end = self.random.choice(("commit",) * 7 + ("abort", "abort", "open"))
        if end == "abort":
            self.aborted.add(self.write_id)
        elif end == "open":
            self.open.add(self.write_id)

    def settle(self) -> None:
        """An open writer commits or aborts."""
        if self.open:
            one = self.random.choice(sorted(self.open))
            self.open.remove(one)
            if self.random.random() < 0.5:
                self.aborted.add(one)

    def compact(self, *, major: bool) -> None:
        """Compact below the first open write id, in a transaction that commits, dies or stays."""
        high = min(self.open) - 1 if self.open else self.write_id
        low = self.base + 1
        if high < low:
            return
        self.txn += 1
        if major:
            self.directories.append(Base(high, self.txn).name)
        else:
            for deletes in (False, True):
                self.directories.append(Delta(low, high, None, self.txn, deletes=deletes).name)
        end = self.random.choice(("commit",) * 6 + ("abort", "open"))
        if end == "abort":
            self.aborted_txns.add(self.txn)
        elif end == "open":
            self.open_txns.add(self.txn)
        elif major:
            self.base = high


@dataclass
class RecordedHistory(History):
    """A history that remembers its compactions which committed."""

    vacuums: list[Vacuumed] = field(default_factory=list)

    def compact(self, *, major: bool) -> None:
        before, txn = len(self.directories), self.txn
        self.look()
        (write_ids, _), low = self.looks.pop(), self.base + 1
        super().compact(major=major)
        made = tuple(self.directories[before:])
        if self.txn == txn or self.txn in self.open_txns | self.aborted_txns:
            return
        high = min(self.open) - 1 if self.open else self.write_id
        self.vacuums.append(Vacuumed(made, low, high, write_ids, self.txn))


@dataclass(frozen=True)
class Vacuumed:
    """A compaction that committed."""

    made: tuple[str, ...]
    low: int
    high: int
    write_ids: ValidWriteIds
    txn: int

    @property
    def kind(self) -> str:
        return "major" if self.made[0].startswith("base") else "minor"


H = TypeVar("H", bound=History)


def random_history(seed: int) -> History:
    """Write a history of five to fifteen steps, with looks in between and at its end."""
    return _random_history(seed, History)


def recorded_history(seed: int) -> RecordedHistory:
    """The same history, with its compactions."""
    return _random_history(seed, RecordedHistory)


def _random_history(seed: int, kind: type[H]) -> H:
    random = Random(seed)  # noqa: S311 - the same history every time is the point
    history = kind(random)
    for _ in range(random.randint(5, 15)):
        step = random.choice(("write",) * 6 + ("settle", "minor", "minor", "major", "overwrite"))
        match step:
            case "write":
                history.write()
            case "settle":
                history.settle()
            case "overwrite":
                history.overwrite()
            case _:
                history.compact(major=step == "major")
        if random.random() < 0.2:
            history.look()
    history.look()
    history.directories = sorted(set(history.directories))
    return history
