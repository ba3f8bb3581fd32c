"""Open the Hudi table that a command names, or refuse it; write its timeline."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tidegate.errors import ConfinementError, FormatError, TransientError
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Instant, InstantState, next_instant
from tidegate.hudi.properties import TableProperties
from tidegate.hudi_reader.table import HudiTable, NoSuchTable, load_table, read_properties
from tidegate.storage import NotFound, Storage, join
from tidegate.tables.claim import HIVE, HUDI, Claim, Task, owner_of
from tidegate.tables.refusal import Refused, refusal_of
from tidegate.tables.warehouse import AlreadyExists, Warehouse

SUPPORTED_VERSIONS: Final = frozenset({6, 8, 9})
SUPPORTED_TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")


def open_table(
    warehouse: Warehouse, location: str, identity: str | None = None, *, any_kind: bool = False
) -> HudiTable:
    """Read a table, after a check that it is below the warehouse roots.

    Args:
        warehouse: The files that may be read.
        location: The table's base path.
        identity: `catalog.database.table`; database (if the table has one) and table must match the
            table's own.
        any_kind: Accept bootstrapped tables, too, for a restore by Hudi's own procedure.

    Raises:
        Refused: the table is outside the roots, can't be read, is another table or unsupported.
    """
    where = _confined(warehouse, location)
    _confined(warehouse, join(where, HUDI))
    try:
        table = load_table(warehouse, where)
    except NoSuchTable as error:
        raise Refused(Reason.NO_SUCH_TABLE, str(error)) from error
    except (FormatError, ConfinementError) as error:
        raise refusal_of(error) from error
    if identity is not None:
        _check_name(table.properties, identity)
    _check_kind(table.properties, any_kind=any_kind)
    _confined(warehouse, join(where, table.properties.timeline_folder))
    return table


@contextmanager
def refusing_unreadable() -> Generator[None]:
    """Turn what a read of an opened table raises into a refusal.

    Raises:
        Refused: a path may not be used, or a file is malformed.
        TransientError: a file was removed while it was being read; try again.
    """
    try:
        yield
    except (ConfinementError, FormatError) as error:
        raise refusal_of(error) from error
    except NotFound as error:
        raise TransientError(f"{error} was removed while it was being read") from error


def check_owner(
    storage: Storage, location: str, identity: str, partition: str | None = None
) -> None:
    """Check, as far as it shows, that no task on a location would be refused for the table's name.

    A partition's task needs the directories of the table and of the partition.

    Raises:
        Refused: it is another table's, by its first task or by a Hudi table's own name.
        TidegateError, OSError: it can't be read.
    """
    places = (location, join(location, partition)) if partition else (location,)
    for path in [join(place, folder) for place in places for folder in (HUDI, HIVE)]:
        with suppress(NotFound):
            owner = owner_of(storage, path)["table"]
            if owner != identity:
                raise Refused(
                    Reason.LOCATION_OF_ANOTHER_TABLE,
                    f"{location} belongs to the table {owner}, not to {identity}",
                )
    with suppress(NoSuchTable):
        _check_name(TableProperties.parse(read_properties(storage, location)), identity)


def claim_table(
    warehouse: Warehouse, location: str, task: Task, kind: type[Claim] = Claim
) -> Claim:
    """Claim a table for a task, see `Claim.take`."""
    return kind.take(warehouse, _confined(warehouse, location), HUDI, task)


def _confined(warehouse: Warehouse, location: str) -> str:
    try:
        return warehouse.roots.check(location)
    except ConfinementError as error:
        raise refusal_of(error) from error


def _check_name(properties: TableProperties, identity: str) -> None:
    _, database, name = identity.lower().split(".")
    actual = (properties.database or database, properties.name)
    if (actual[0].lower(), actual[1].lower()) != (database, name):
        raise Refused(
            Reason.TABLE_MISMATCH,
            f"the command is for {identity}, but the table at its location is {'.'.join(actual)}",
        )


def _check_kind(properties: TableProperties, *, any_kind: bool) -> None:
    if properties.version not in SUPPORTED_VERSIONS:
        known = ", ".join(map(str, sorted(SUPPORTED_VERSIONS)))
        why = f"table version {properties.version} is not supported, only {known}"
    elif properties.table_type not in SUPPORTED_TYPES:
        known = " and ".join(SUPPORTED_TYPES)
        why = f"{properties.table_type} tables are not supported, only {known}"
    elif properties.is_bootstrapped and not any_kind:
        why = "bootstrapped tables are not supported: their base files lie outside the table"
    else:
        return
    raise Refused(Reason.UNSUPPORTED_TABLE, why)


@dataclass(frozen=True, slots=True)
class TimelineWriter:
    """Changes the timeline of one table."""

    warehouse: Warehouse
    table: HudiTable
    clock: Callable[[], datetime]

    def new_instant(self) -> str:
        """The current time as an instant, greater than every instant of the current timeline."""
        now = self.table.reloaded().timeline.greatest
        return next_instant(self.clock(), self.table.properties.zone, now)

    def begin(self, instant: Instant, content: bytes = b"") -> bool:
        """Create a requested or inflight file; False if it exists already."""
        try:
            self.warehouse.create(self.table.path_of(instant), content)
        except AlreadyExists:
            return False
        return True

    def complete(self, instant: Instant, content: bytes) -> None:
        """Create the completed file. If two processes create one, the earlier completion stays.

        In layout 2 the name contains the completion time, so both files may exist. The process that
        lists the timeline last sees both and removes the later one.
        """
        done = replace(instant, state=InstantState.COMPLETED, completion=self.new_instant())
        self.begin(done, content)
        twins = [
            i
            for i in self.table.reloaded().files
            if (i.timestamp, i.action, i.state) == (done.timestamp, done.action, done.state)
        ]
        self.remove(sorted(twins, key=lambda i: i.completion or "")[1:])

    def remove(self, instants: Iterable[Instant]) -> None:
        """Remove the files of instants, with Hadoop's checksums."""
        paths = [self.table.path_of(instant) for instant in instants]
        self.warehouse.remove_files(paths, checksums=True)
