"""What the reader gate stores of a table, as the records of its changelog.

A table has one main record (`GateState`), one record for each waiting vacuum, and the ids of ended
locks and transactions in chunks of bounded size. An event changes the main record and the few
others that it concerns, however many vacuums wait.

The types are plain: one is made for nearly every event, and pydantic's models cost ten times as
much to make and to read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import ConfigDict, Field
from pydantic_core import from_json

from tidegate.cleaning.gate_columns import MAX_ROWS, from_columns, mixed, to_columns
from tidegate.cleaning.gate_index import GateIndex, Hold, transaction_token
from tidegate.cleaning.gate_json import parsed, to_json_bytes
from tidegate.errors import PermanentError, StopService
from tidegate.events import VacuumFinished, VacuumKind

VACUUM: Final = "v"
"""The names of waiting vacuums' records begin with it."""
RELEASED: Final = "r"
"""Those of chunks of ended locks and transactions."""
CLEANED: Final = "c"
"""Those of chunks of vacuums whose cleaning was released."""
UNKNOWN: Final = "u"
"""The name of the record of a table of which only releases are known."""
MARKS: Final = "m"
"""The name of the record of what was forgotten."""
_DERIVED: Final = b"null"
_PACKED: Final = b"x"
"""How a record begins that zlib has compressed; the others are JSON."""
_WIDE: Final = 1_000
"""Locks from which on they are stored column by column."""
_PACKED_ABOVE: Final = 100_000
"""Bytes: the few vacuums with thousands of holds. Everything but vacuums has fewer."""
MAX_UNPACKED: Final = 32 * 2**20
"""Bytes that a packed record expands to at most. One publication has 2 MiB, in JSON six times as
much at the worst; several of one vacuum, with other holds each, may exceed it and are refused."""
_OVERDUE: Final = 100
"""Of them what is kept for saying that it waits too long: no event could be refused for that."""
_CHARACTER: Final = 6
"""Bytes that a character has in JSON, at most; those of the fields' limits are here:"""
_NAME: Final = 255 + 1
_NUMBER: Final = 2 * (19 + 3)
_LOCK: Final = _CHARACTER * (1_000 + 1_000) + 4 * _NUMBER
_BESIDES: Final = _CHARACTER * (4_000 + 1_000) + 1_000
"""What else a vacuum's record has: mainly a location and a partition."""


class Vacuum(NamedTuple):
    """The fields of a vacuum that its CleaningReleased repeats. A vacuum is Hive's compaction."""

    location: str
    kind: VacuumKind
    partition: str | None
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None

    @classmethod
    def of(cls, event: VacuumFinished) -> Vacuum:
        """The fields of an event."""
        return cls._make(_copied(event))


_copied: Final = attrgetter(*Vacuum._fields)


class HeldLock(NamedTuple):
    """A lock that a vacuum waits for, with what people want to know of it."""

    lock_id: int
    transaction_id: int | None = None
    partition: str | None = None
    lock_type: str | None = None
    owner: str | None = None


@dataclass(slots=True)
class WaitingVacuum:
    """A vacuum and all its holds, ended ones too: the record does not change when one ends.

    Nobody changes one; as a frozen dataclass it would take three times as long to make.
    """

    event_id: str
    since: datetime
    content: int
    """A hash of what the cleaner is to do, by which a corrected publication is recognised."""
    locks: tuple[HeldLock, ...]
    transactions: tuple[int, ...]
    vacuum: Vacuum
    overdue_since: datetime | None = None
    """When people were told that it waits too long."""
    from_event: bool = field(default=False, compare=False, repr=False)
    """Whether the vacuum's fields were checked in this process, as those of an event."""
    holds: tuple[Hold, ...] = field(init=False, compare=False, repr=False)
    """Each hold as the tokens of what ends it, the youngest first; of very many in no order."""

    def __post_init__(self) -> None:
        """Derive the holds."""
        # as `lock_token` and `transaction_token`, without their calls
        holds = [
            (2 * lock_id,)
            if txn is None
            else (2 * lock_id, 2 * txn + 1)  # it ends with its transaction, too
            for lock_id, txn, _, _, _ in self.locks
        ]
        if self.transactions:
            holds += [(transaction_token(txn),) for txn in self.transactions]
        if len(holds) > _WIDE:
            holds.sort(key=mixed)
        else:
            holds.sort(reverse=True)
        self.holds = tuple(holds)

    def whole(self) -> WaitingVacuum:
        """Itself: it is not a record."""
        return self

    def unsaid_since(self) -> datetime | None:
        """Since when it has waited; None where people know that it waits too long."""
        return None if self.overdue_since else self.since


class VacuumRecord:
    """A waiting vacuum as it is stored: read only as far as it is needed.

    The first line has the holds, which the index needs; a hundred thousand are read in a second.
    That of a vacuum with very many is `null`: they are derived from its locks.
    """

    __slots__ = ("_details", "holds")

    def __init__(self, record: bytes) -> None:
        """Read the holds.

        Raises:
            ValueError, TypeError, LookupError: it is not a record that `dump_piece` made.
        """
        holds, self._details = _unpacked(record).split(b"\n", 1)
        self.holds: Sequence[Sequence[int]] = (
            self._whole().holds if holds == _DERIVED else from_json(holds)
        )

    def whole(self) -> WaitingVacuum:
        """Read all of it.

        Raises:
            StopService: it can't be read: nothing may be decided without it.
        """
        try:
            return self._whole()
        except (ValueError, TypeError, LookupError) as error:
            raise StopService(
                f"a waiting vacuum in the changelog can't be read: {error!r}"
            ) from error

    def unsaid_since(self) -> datetime | None:
        """Since when it has waited; None where people know that it waits too long."""
        read = parsed(self._details)
        return None if "overdue_since" in read else datetime.fromisoformat(read["since"])

    def _whole(self) -> WaitingVacuum:
        read = parsed(self._details)
        overdue = read.get("overdue_since")
        vacuum = read["vacuum"]
        vacuum["kind"] = VacuumKind(vacuum["kind"])
        vacuum["directories"] = tuple(vacuum["directories"])
        return WaitingVacuum(
            read["event_id"],
            datetime.fromisoformat(read["since"]),
            read["content"],
            tuple(map(HeldLock._make, from_columns(read["columns"])))
            if "columns" in read
            else tuple(HeldLock(*each) for each in read["locks"]),
            tuple(read["transactions"]),
            Vacuum(**vacuum),
            None if overdue is None else datetime.fromisoformat(overdue),
        )


VACUUMS: Final = (WaitingVacuum, VacuumRecord)
"""The types of a piece that is a waiting vacuum."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Ids that were remembered together, and when the last of them was (ms of the epoch)."""

    at: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """The highest ids of a lock and of a transaction whose end was forgotten."""

    lock: int | None = None
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class UnknownTable:
    """The first release of a table, kept until the table's first vacuum comes."""

    event_id: str
    location: str
    since: datetime
    lock_id: int | None
    transaction_id: int | None
    published_by: str
    said_at: datetime | None = None
    """When people were told that no vacuum has come."""

    def unsaid_since(self) -> datetime | None:
        """Since when only releases have come; None where people know."""
        return None if self.said_at else self.since


@dataclass(slots=True)
class GateState:
    """A table's main record: the newest ids, before they fill a chunk.

    Nobody changes one (see `WaitingVacuum`): each event that changes the table makes another.
    `index` is derived from all records of the table when they are loaded, and kept up to date in
    place; it is not stored.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    released: tuple[int, ...] = ()
    """Tokens of locks and transactions that have ended."""
    released_at: int = 0
    """When the last of them did (ms of the epoch)."""
    cleaned: tuple[int, ...] = ()
    """Hashes of vacuums whose cleaning was released."""
    cleaned_at: int = 0
    index: Annotated[Any, Field(exclude=True)] = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        """How much memory it takes, in ids."""
        return len(self.released) + len(self.cleaned) + len(self.index or ())

    @property
    def loaded(self) -> GateIndex:
        """The index, once the table is loaded."""
        if not isinstance(self.index, GateIndex):
            raise TypeError("the state of a table is opened before it is used")
        return self.index


def vacuum_name(of: int) -> str:
    """The name of the record of the vacuum of an identity."""
    return f"{VACUUM}{of:016x}"


def identity(event: VacuumFinished) -> int:
    """A hash of what makes it this vacuum, whatever else a publication says of it."""
    made = list(event.directories)
    if len(made) > 1:
        made.sort()
    # a Metastore that was restored gives the same ids out for another vacuum
    of = "" if event.metastore is None else f"\x1f{event.metastore}"
    return hashed(f"{event.partition}\x1f{made}\x1f{event.own_lock_id}{of}")


def content(event: VacuumFinished, of: int) -> int:
    """A hash of what the cleaner is to do to the vacuum of an identity; holds are no part of it."""
    location, kind, _, _, least, most, valid, own = _copied(event)
    return hashed(f"{of}\x1f{location}\x1f{kind}\x1f{least}\x1f{most}\x1f{valid}\x1f{own}")


def hashed(text: str) -> int:
    """63 bits of SHA-256: a number that every JSON reader can hold."""
    digest = _fresh()
    digest.update(text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:8]) >> 1


_fresh: Final = sha256().copy
"""Begins a hash at half the cost of looking up the algorithm: it runs for every vacuum."""


def most_bytes(piece: object) -> int:
    """A bound of the size of its record, from the limits of the events' fields."""
    if not isinstance(piece, WaitingVacuum):
        return _PACKED_ABOVE
    vacuum = piece.vacuum
    characters = len(vacuum.valid_write_ids) + len(vacuum.directories) * _NAME
    holds = len(piece.locks) * _LOCK + len(piece.transactions) * _NUMBER
    return _BESIDES + _CHARACTER * characters + holds


def dump_piece(piece: object) -> bytes:
    """The record of a piece.

    Raises:
        PermanentError: it is a vacuum that would expand beyond MAX_UNPACKED when it is read.
    """
    if isinstance(piece, WaitingVacuum):
        return _dump_vacuum(piece)
    if isinstance(piece, Chunk | Marks):
        return to_json_bytes(asdict(piece))
    if isinstance(piece, UnknownTable):
        said = None if piece.said_at is None else piece.said_at.isoformat()
        return to_json_bytes(asdict(piece) | {"since": piece.since.isoformat(), "said_at": said})
    raise TypeError(f"the gate stores nothing of type {type(piece).__name__}")


def parse_piece(name: str, record: bytes) -> VacuumRecord | Chunk | Marks | UnknownTable:
    """The piece of a record.

    Raises:
        ValueError, TypeError, LookupError: it is not one that `dump_piece` made.
    """
    if name[0] == VACUUM:
        return VacuumRecord(record)
    read = json.loads(record)
    if name == MARKS:
        return Marks(**read)
    if name == UNKNOWN:
        said = read["said_at"] and datetime.fromisoformat(read["said_at"])
        return UnknownTable(
            **read | {"since": datetime.fromisoformat(read["since"]), "said_at": said}
        )
    return Chunk(read["at"], tuple(read["ids"]))


def _dump_vacuum(vacuum: WaitingVacuum) -> bytes:
    location, kind, partition, directories, least, most, valid, own = vacuum.vacuum
    is_wide = len(vacuum.locks) > _WIDE
    # plain tuples and text: a named tuple takes the encoder 2 us more, a member of an enum 4
    plain = [
        (lock, txn, part, kind and str(kind), owner)
        for lock, txn, part, kind, owner in vacuum.locks
    ]
    details: dict[str, object] = {
        "event_id": vacuum.event_id,
        "since": _iso(vacuum.since),
        "content": vacuum.content,
        "columns" if is_wide else "locks": to_columns(plain) if is_wide else plain,
        "transactions": vacuum.transactions,
        "vacuum": {
            "location": location,
            "kind": str(kind),
            "partition": partition,
            "directories": directories,
            "min_write_id": least,
            "max_write_id": most,
            "valid_write_ids": valid,
            "own_transaction_id": own,
        },
    }
    if vacuum.overdue_since is not None:  # few are
        details["overdue_since"] = vacuum.overdue_since.isoformat()
    record = (_DERIVED if is_wide else to_json_bytes(vacuum.holds)) + b"\n" + to_json_bytes(details)
    limit = MAX_UNPACKED - _OVERDUE if vacuum.overdue_since is None else MAX_UNPACKED
    if len(record) > limit or len(vacuum.locks) > MAX_ROWS:
        raise PermanentError(
            f"a waiting vacuum of {len(record)} bytes, {len(vacuum.locks)} locks in all its"
            f" publications; the limit is {limit} bytes, {MAX_ROWS} locks"
        )
    return record if len(record) <= _PACKED_ABOVE else zlib.compress(record)


@lru_cache(maxsize=100)  # all vacuums of a batch have the broker's time of that batch
def _iso(at: datetime) -> str:
    return at.isoformat()


def _unpacked(record: bytes) -> bytes:
    if record[:1] != _PACKED:
        return record
    reader = zlib.decompressobj()
    try:
        whole = reader.decompress(record, MAX_UNPACKED)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if reader.unconsumed_tail:
        raise ValueError(f"it expands beyond the limit of {MAX_UNPACKED} bytes")
    if not reader.eof:
        raise ValueError("it was cut off")
    return whole
