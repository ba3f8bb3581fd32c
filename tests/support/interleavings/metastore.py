"""The steps of the others: readers, a writer, compactions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain

from support.interleavings.explore import Step
from support.interleavings.scenario import Kind, Scenario
from support.interleavings.world import (
    Directories,
    Directory,
    Reader,
    Row,
    Snapshot,
    Vacuum,
    World,
    Write,
    chosen,
    sorted_directories,
)
from tidegate.hive.names import Base, Delta, parse_name
from tidegate.hive_metastore.values import write_ids_of_compaction

IDS = 10
"""Ids of transactions in an epoch; the first is that of its opener."""
BEFORE = (Write(0, "committed"), Write(IDS, "aborted"), Write(2 * IDS, "committed", 1))
"""The writes before the first step: an insert, an aborted one, and one that deletes as well."""


def beginning(scenario: Scenario) -> World:
    """The table with its first writes; no transaction has begun."""
    world = World(
        epoch=len(BEFORE),
        writes=BEFORE,
        directories=(),
        readers=tuple(Reader() for _ in scenario.readers),
        vacuums=tuple(Vacuum() for _ in scenario.vacuums),
        faults=scenario.faults,
    )
    return world._replace(directories=everything(world))


def everything(world: World) -> Directories:
    """The directories as they would be without any removal."""
    made = (vacuum.made for vacuum in world.vacuums if vacuum.phase in {"written", "visible"})
    return _everything(world.writes, tuple(made))


@cache
def _everything(writes: tuple[Write, ...], made: tuple[Directories, ...]) -> Directories:
    found = [row for number, write in enumerate(writes, 1) for row in _written(number, write)]
    return sorted_directories(chain(found, *made))


def open_txns(world: World, scenario: Scenario) -> tuple[int, ...]:
    """The transactions that the Metastore has open."""
    readers = (
        reader.txn
        for reader in world.readers
        if reader.phase in {"compiled", "elsewhere", "locked", "listed", "dead", "dead, locked"}
    )
    writers = (write.txn for write in world.writes if write.stands == "open")
    vacuums = (vacuum.txn for vacuum in world.vacuums if vacuum.phase in {"begun", "written"})
    found = {*readers, *writers, *(vacuums if scenario.hive == 4 else ())}
    return tuple(sorted(found))


def locked(world: World) -> tuple[int, ...]:
    """The readers, by index, that hold their lock; -1 for the writer."""
    readers = (
        index
        for index, reader in enumerate(world.readers)
        if reader.phase in {"elsewhere", "locked", "listed", "dead, locked"}
    )
    writers = (-1 for write in world.writes if write.stands == "open")
    return (*writers, *readers)


def snapshot_of(world: World, scenario: Scenario) -> Snapshot:
    """What a query that compiles now sees."""
    writing = tuple(write.txn for write in world.writes if write.stands == "open")
    vacuums = tuple(vacuum.txn for vacuum in world.vacuums if vacuum.phase in {"begun", "written"})
    opened = (*writing, *(vacuums if scenario.hive == 4 else ()))
    begun = max(write.txn for write in world.writes), *(vacuum.txn for vacuum in world.vacuums)
    return Snapshot(max(begun), tuple(sorted(opened)), world.writes)


def high_water_mark(world: World) -> int:
    """The highest id of a transaction that may have been given out."""
    return (world.epoch + 1) * IDS - 1


def steps_of_readers(world: World, scenario: Scenario) -> Iterator[Step[World]]:
    """Compile, lock, list, end; one of them dies instead, and times out later."""
    for index, reader in enumerate(world.readers):
        role, dies = scenario.readers[index], scenario.dies == index
        if reader.phase == "new":
            txn = world.epoch * IDS + 1 + index
            found = [("compiles", Reader("compiled", txn, snapshot_of(world, scenario)))]
        else:
            found = list(_next_of(reader, role, world, dies=dies))
        for name, after in found:
            readers = (*world.readers[:index], after, *world.readers[index + 1 :])
            label = f"reader {index + 1} ({role}) {name}"
            yield label, False, world._replace(readers=readers)


def _next_of(
    reader: Reader, role: str, world: World, *, dies: bool
) -> Iterator[tuple[str, Reader]]:
    match reader.phase:
        case "compiled" if role == "one by one":
            yield "locks another table", reader._replace(phase="elsewhere")
        case "compiled" | "elsewhere":
            yield "locks", reader._replace(phase="locked")
            if dies:
                yield "dies", Reader("dead", reader.txn)
        case "locked" if role != "elsewhere":
            state = chosen(world.directories, reader.snapshot)
            if state is not None:
                names = (*state.current, state.base) if state.base else state.current
                yield "lists", reader._replace(phase="listed", chosen=tuple(sorted(names)))
            if dies:
                yield "dies", Reader("dead, locked", reader.txn)
        case "listed":
            if dies:
                yield "dies", Reader("dead, locked", reader.txn)
            else:
                yield "ends", Reader("done")
        case "dead" | "dead, locked":
            yield "times out", Reader("done")
        case _:
            return


def steps_of_writer(world: World, scenario: Scenario) -> Iterator[Step[World]]:
    """Insert a row, and delete another one or overwrite all; commit or abort."""
    if scenario.writer is None:
        return
    number = len(BEFORE) + 1
    if len(world.writes) == len(BEFORE):
        write = Write((world.epoch + 1) * IDS, "open", overwrites=scenario.writer == "overwrites")
        if scenario.writer == "deletes":
            write = write._replace(deletes=3)
        yield (
            "the writer writes",
            False,
            world._replace(
                epoch=world.epoch + 1,
                writes=(*world.writes, write),
                directories=sorted_directories((*world.directories, *_written(number, write))),
            ),
        )
    elif world.writes[-1].stands == "open":
        for stands in ("committed", "aborted"):
            writes = (*world.writes[:-1], world.writes[-1]._replace(stands=stands))
            yield f"the writer's transaction is {stands}", False, world._replace(writes=writes)


def steps_of_vacuums(world: World, scenario: Scenario) -> Iterator[Step[World]]:
    """Begin (take a snapshot and list), write, become visible; one after the other."""
    for index, vacuum in enumerate(world.vacuums):
        if index and world.vacuums[index - 1].phase not in {"visible", "none"}:
            return
        kind = scenario.vacuums[index]
        label = f"vacuum {index + 1} ({kind})"
        match vacuum.phase:
            case "new":
                after = _begun(kind, world, scenario)
                name = "finds nothing to do" if after.phase == "none" else "begins"
            case "begun":
                after, name = vacuum._replace(phase="written"), "writes"
            case "written":
                mark = high_water_mark(world) if scenario.hive == 4 else None
                after = vacuum._replace(phase="visible", next_txn=mark)
                name = "commits"
            case _:
                continue
        epoch = world.epoch + (scenario.hive == 4 and name in {"begins", "commits"})
        vacuums = (*world.vacuums[:index], after, *world.vacuums[index + 1 :])
        directories = world.directories
        if after.phase == "written":
            directories = sorted_directories((*directories, *after.made))
        yield (
            f"{label} {name}",
            False,
            world._replace(vacuums=vacuums, epoch=epoch, directories=directories),
        )


def _begun(kind: Kind, world: World, scenario: Scenario) -> Vacuum:
    """What a compaction that begins now reads and will write, as Hive's Worker does."""
    snapshot = snapshot_of(world, scenario)
    answer = snapshot.write_ids
    highest = min(answer.min_open - 1, answer.high_water_mark)
    state = chosen(world.directories, snapshot)
    if state is None:
        return Vacuum("none")
    deltas = [
        name
        for name in state.current
        if (delta := parse_name(name)).max_write_id <= highest and isinstance(delta, Delta)
    ]
    names = [*deltas, state.base] if kind == "major" and state.base else deltas
    if len(names) < 2:
        return Vacuum("none")
    ids = write_ids_of_compaction(answer, highest)
    read = (directory.rows or () for directory in world.directories if directory.name in names)
    rows = frozenset(row for rows in read for row in rows if ids.is_valid(row[1]))
    parsed = [parse_name(name) for name in names]
    # Hive 4 names them by the highest write id of its snapshot, Hive 3 by what it has read
    last = highest if scenario.hive == 4 else max(delta.max_write_id for delta in parsed)
    txn = (world.epoch + 1) * IDS if scenario.hive == 4 else None
    if kind == "major":
        made: Directories = (_base(Base(last, txn), rows),)
    else:
        first = min(delta.min_write_id for delta in parsed)
        made = tuple(_deltas(Delta(first, last, visibility_txn=txn), rows))
    return Vacuum("begun", txn or 0, None, highest, tuple(sorted(names)), made)


def _base(base: Base, rows: frozenset[Row]) -> Directory:
    gone = {row[-1] for row in rows if row[0] == "d"}
    return Directory(
        base.name, frozenset(row for row in rows if row[0] == "i" and row[1] not in gone)
    )


def _deltas(delta: Delta, rows: frozenset[Row]) -> Iterator[Directory]:
    for operation in ("i", "d"):
        some = frozenset(row for row in rows if row[0] == operation)
        if some:
            yield Directory(delta._replace(deletes=operation == "d").name, some)


def _written(number: int, write: Write) -> Iterator[Directory]:
    inserted: Row = ("i", number)
    if write.overwrites:
        yield Directory(Base(number).name, frozenset({inserted}))
        return
    yield Directory(Delta(number, number, 0).name, frozenset({inserted}))
    if write.deletes is not None:
        deleted: Row = ("d", number, write.deletes)
        yield Directory(Delta(number, number, 0, deletes=True).name, frozenset({deleted}))
