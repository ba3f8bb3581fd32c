"""Waiting vacuums, holds of tables and quarantines, from the coordinator's changelog.

It is read without fencing the coordinator, which is not disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from heapq import nsmallest
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from tidegate.coordinator import readers, tasks
from tidegate.coordinator.holds import hold_on, holds
from tidegate.coordinator.memory import reader_of
from tidegate.coordinator.quarantines import Quarantine, quarantines
from tidegate.coordinator.requests import AWAITING
from tidegate.coordinator.rows.position import POSITION_KEY, lost_head
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.vacuums import WaitingVacuum
from tidegate.coordinator.vacuums import waiting_vacuums as waiting_rows
from tidegate.errors import ConfigError, FormatError, StopService
from tidegate.errors.commands import command_line
from tidegate.events import LockReleased, OutstandingReader, derived_id, table_identity
from tidegate.events.fields import from_ms
from tidegate.events.signature import Proof
from tidegate.events.topics import CHANGELOG, partition_of
from tidegate.ops.event_log import PATTERN, EventLog
from tidegate.ops.summary import counted
from tidegate.runtime.bus import ChangelogRecord, Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.retry import ELECTION_RETRIES
from tidegate.service.catalogue import COORDINATOR, inputs_of
from tidegate.service.settings import Settings


@dataclass(frozen=True, slots=True)
class PendingVacuum:
    """A waiting vacuum and its outstanding holds. `since` is the broker's time."""

    table: str
    location: str
    partition: str | None
    event_id: str
    since: datetime
    kind: str
    directories: tuple[str, ...]
    holds: int
    """The number of holds when the vacuum's result became visible."""
    outstanding: tuple[OutstandingReader, ...]
    overdue_since: datetime | None = None
    """When VacuumOverdue was published for it; None if it is not overdue."""
    metastore: str | None = None
    """Whose ids the holds are."""
    held_by: str | None = None
    """Who holds the table, and why; None: the table is not held."""

    @classmethod
    def of(cls, waiting: WaitingVacuum, rows: Store) -> PendingVacuum:
        """A vacuum that waits, with its outstanding readers looked up."""
        made, hold = waiting.fields, hold_on(rows, waiting.table)
        overdue = waiting.overdue_since
        return cls(
            table=waiting.table,
            location=made.location,
            partition=made.partition,
            event_id=waiting.event_id,
            since=from_ms(waiting.since),
            kind=str(made.kind),
            directories=made.directories,
            holds=waiting.reader_count,
            outstanding=tuple(waiting.outstanding_readers(rows)),
            overdue_since=None if overdue is None else from_ms(overdue),
            metastore=waiting.metastore,
            held_by=None
            if hold is None
            else f"{Proof(hold.signed_by).named(hold.requested_by)}: {hold.reason}",
        )


@dataclass(slots=True)
class OldestVacuums:
    """Up to `limit` waiting vacuums, oldest first, and the number of all; only these in memory."""

    limit: int
    wanted: Callable[[WaitingVacuum], bool] = lambda _: True
    vacuums: Sequence[PendingVacuum] = field(default=(), init=False)
    count: int = field(default=0, init=False)

    def take(self, store: Store) -> None:
        """Count the waiting vacuums of one partition, and retain the oldest ones.

        Raises:
            StopService: a record can't be read.
        """
        wanted = (vacuum for vacuum in waiting_rows(store) if self._counted(vacuum))
        by_age = attrgetter("since", "event_id")
        own = [PendingVacuum.of(vacuum, store) for vacuum in nsmallest(self.limit, wanted, by_age)]
        self.vacuums = nsmallest(self.limit, [*self.vacuums, *own], by_age)

    def _counted(self, vacuum: WaitingVacuum) -> bool:
        is_wanted = self.wanted(vacuum)
        self.count += is_wanted
        return is_wanted


_RETRIES: Final = ELECTION_RETRIES.quiet()
"""Quiet, because the caller reports an outage: the monitor logs it, a command fails."""
_SEPARATOR: Final = b"\x00"


def waiting_vacuums(settings: Settings, table: str | None = None) -> Iterator[PendingVacuum]:
    """The vacuums that wait now, according to the gate, in no particular order.

    Arguments and errors are those of `gate_stores`.
    """
    for store in gate_stores(settings, table):
        yield from (PendingVacuum.of(vacuum, store) for vacuum in waiting_rows(store))


def is_waited_for(settings: Settings, released: LockReleased) -> bool:
    """Whether a vacuum of the table waits, or waited, for what has ended; errors: `gate_stores`."""
    ended = set(reader_of(released.lock_id, released.transaction_id))
    vacuums = (v for store in gate_stores(settings, released.table) for v in waiting_rows(store))
    return any(ended & set(chain.from_iterable(vacuum.readers)) for vacuum in vacuums)


def gate_stores(settings: Settings, table: str | None = None) -> Iterator[Store]:
    """The rows of the readers' gate, partition by partition.

    One partition's rows are in memory at a time: a store is closed once the next is asked for. Of a
    table named exactly, only its partition is read, and nothing of other tables is kept.

    Args:
        settings: The deployment.
        table: An identity or a shell pattern; None: all tables.

    Raises:
        ConfigError: the changelog does not exist.
        TransientError: no broker answers.
        StopService, FormatError: the changelog can't be read, or is not complete.
    """
    connection = settings.connection()
    topic = CHANGELOG.name(settings.topics.prefix)
    metadata = KafkaMetadata.for_people(connection)
    metadata.require_connection()
    count = _RETRIES.call(lambda: metadata.partitions(topic))
    is_exact = table is not None and not PATTERN & set(table)
    numbers = [partition_of(table, count)] if table is not None and is_exact else range(count)
    parts = [Partition(topic, number) for number in numbers]
    found = _RETRIES.call(lambda: metadata.watermarks(parts))
    for part, marks in found.items():
        if lost := lost_head(part, marks.first):
            raise StopService(f"{lost}. See: {command_line('doctor')}")
    empty = [part for part in parts if found[part].first == found[part].end]
    if empty:
        _require_rows(metadata, settings.topics.prefix, empty)
    bus = KafkaBus(connection)
    for part in parts:
        if part in empty:
            continue
        store = _RETRIES.call(partial(_store, bus, part, table))
        yield store
        store.close()  # the caller still refers to it while the next one is read


def _require_rows(metadata: KafkaMetadata, prefix: str, empty: Sequence[Partition]) -> None:
    """An empty changelog has lost its rows if the coordinator has read events of its inputs."""
    inputs = {Partition(t.name(prefix), p.number): p for p in empty for t in inputs_of(COORDINATOR)}
    committed = _RETRIES.call(lambda: metadata.committed(f"{prefix}.{COORDINATOR}", inputs))
    # in this order, because the coordinator writes its changelog before it commits
    parts = {*committed, *(inputs[part] for part in committed)}
    marks = _RETRIES.call(lambda: metadata.watermarks(parts))
    for part, at in committed.items():
        if at.offset > marks[part].first and not marks[rows := inputs[part]].end:
            raise StopService(
                f"{rows.topic}[{rows.number}] is empty, but {part.topic} was read up to offset"
                f" {at.offset}: the rows are lost. See: {command_line('doctor')}"
            )


def _store(bus: KafkaBus, part: Partition, table: str | None) -> Store:
    store = Store((*readers.ROW_TYPES, *tasks.ROW_TYPES, AWAITING))
    store.restore(_records(bus, part, table))
    return store


def _records(bus: KafkaBus, part: Partition, table: str | None) -> Iterator[ChangelogRecord]:
    for record in bus.log(part):
        key = record.key or b""
        name = key.partition(_SEPARATOR)[0].decode()
        if key == POSITION_KEY or (name and (table is None or fnmatchcase(name, table))):
            yield key, record.value


def approved(rows: Store) -> set[tuple[str, int]]:
    """The tables and hashed ids of the requests that were approved and have no outcome yet."""
    return set(rows.all("select tbl, id from awaiting where until is null"))


def held_tables(rows: Store) -> Iterator[dict[str, Any]]:
    """The tables whose cleaning is on hold, in no particular order. `since` is the broker's time.

    `deferred` counts cleanings that were released before the hold and wait for its end.
    """
    for table, hold, deferred in holds(rows):
        yield {
            "table": table,
            "requested_by": hold.requested_by,
            "signed_by": hold.signed_by,
            "reason": hold.reason,
            "since": from_ms(hold.since),
            "event_id": hold.event_id,
            "deferred": deferred,
        }


def held_line(hold: Mapping[str, Any]) -> str:
    """A held table for people: the holder, the time and the reason."""
    since = f"{hold['since']:%Y-%m-%dT%H:%M:%SZ}"
    return f"{hold['table']}  held since {since} by {holder(hold)}: {hold['reason']}"


def removable_line(hold: Mapping[str, Any]) -> str:
    """The same with the command that removes the hold."""
    return f"{held_line(hold)}; to remove it: {hold_removal(hold['table'])}"


def hold_removal(table: str) -> str:
    """The command that removes a hold."""
    return command_line("hold remove", table, reason="it is done")


def holder(hold: Mapping[str, Any]) -> str:
    """Who holds a table: the signer, or a name that no signature proves."""
    return Proof(hold["signed_by"]).named(hold["requested_by"])


def quarantined(rows: Store) -> Iterator[dict[str, Any]]:
    """The quarantined directories of each cleaning, in no particular order."""
    for row in quarantines(rows):
        if not row.undone:
            names = ("table", "partition", "cleaning", "directories", "bytes")
            yield {name: getattr(row, name) for name in names} | {"until": from_ms(row.due)}


def quarantine_line(row: Mapping[str, Any]) -> str:
    """A quarantine for people: the table, the directories, its end and the cleaning."""
    where = f"{row['table']}/{row['partition']}" if row["partition"] else row["table"]
    until = f"{row['until']:%Y-%m-%dT%H:%M:%SZ}, of {row['cleaning']}"
    return f"{where}  {counted(row['directories'], 'directory')} in quarantine until {until}"


def find_cleaning(settings: Settings, subject: str) -> Quarantine:
    """The newest cleaning of a table that can be undone, or the cleaning with an id.

    Args:
        settings: The deployment.
        subject: A table; or the id of the vacuum, the cleaning or its start. The first characters
            of a cleaning's or a start's id suffice, if they are unique.

    Raises:
        ConfigError: there is no such table or cleaning, or several ids begin with the subject.
        TransientError: no broker answers.
    """
    try:
        table = table_identity(subject)
    except FormatError:
        table = None
    rows = (row for store in gate_stores(settings, table) for row in quarantines(store))
    there = [row for row in rows if not row.undone]
    if table is None:
        return by_id(there, subject)
    if not any(row.table == table for row in there):
        EventLog.of(settings).check_named(table, "nothing of it is in quarantine")
    return newest_of(there, table)


def newest_of(there: Iterable[Quarantine], table: str) -> Quarantine:
    """The newest of a table's quarantines.

    Raises:
        ConfigError: there are none.
    """
    own = [row for row in there if row.table == table]
    if not own:
        raise ConfigError(f"{table} has nothing in quarantine, as far as the coordinator has read")
    # once a removal is requested, `due` is the time of the next request
    return max(own, key=lambda row: (not row.requested, row.due))


def by_id(there: Iterable[Quarantine], event_id: str) -> Quarantine:
    """The cleaning that an id belongs to.

    Raises:
        ConfigError: there is no such cleaning, or several ids begin with this one.
    """
    from_vacuum = derived_id("CleaningReleased", event_id)
    found = [
        row
        for row in there
        if row.cleaning == from_vacuum
        or row.cleaning.startswith(event_id)
        or row.started.startswith(event_id)
    ]
    if not found:
        raise ConfigError(f"no quarantined cleaning has the id {event_id}")
    if len(found) > 1:
        ids = ", ".join(row.cleaning for row in found)
        raise ConfigError(f"several ids begin with {event_id}: {ids}")
    return found[0]
