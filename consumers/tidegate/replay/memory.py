"""What a replay does to a decider's memory: its positions go back, its states stay.

A decider's changelog says up to which offset each input was applied, so a group that is merely put
back would pass over everything it reads again. The positions are therefore put back with it, under
the fence of the changelog's transactional id: a process that still held the partition can't write
over them any more, and one that takes it over afterwards shuts us out.

The states stay, on purpose. They hold what makes a repeat recognisable: the instants that a
savepoint was asked for, the vacuums that were let go, the locks and transactions that are known to
be gone. A decider that had forgotten these would ask again for all of it, and a vacuum whose locks
were released long ago, by events that are off their topic by now, would wait for ever. So an event
read again counts as one heard twice, which every decider has to bear anyway: what it missed (an
event set aside by faulty code, a table that no rule covered then) is made up for, and what it did
is not done again. Should a command be said again all the same, it has the id that it had, and the
executors keep what they answered.

Where some tables alone are meant, the positions of the partition go back all the same, because they
cover every table. Each other table that has records among those is given positions of its own,
which say up to where it was applied, so that it passes over them: nothing of it is decided anew.
Only where the offsets themselves mean nothing any more (the topic was created again) does the
memory of all tables go back.

Until the service has run, these lie beyond the partition's. A replay of such a table, or of all, is
therefore planned from its own positions too: the partition's may stand at the target already.

The memory is put back before the group's offsets. A crash in between leaves positions that lie
below the offsets: the decider refuses to start, and the replay is run once more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.events import Value
from tidegate.events.topics import changelog
from tidegate.replay.groups import GroupInUseError
from tidegate.replay.plan import GroupReplay, Move, Remembered
from tidegate.runtime.bus import Bus, Partition
from tidegate.runtime.entry import Entry, Positions
from tidegate.runtime.ledger import POSITIONS_KEY, TOPIC_IDS_KEY, Ledger, ledger_for


class AnyState(Value, frozen=True, extra="allow"):
    """A decider's state, whatever it holds: a replay carries it over unread."""


def recall(
    bus: Bus,
    where: Partition,
    topics: Iterable[str],
    tables: Collection[str] | None = None,
) -> dict[Partition, Remembered]:
    """Look up what a decider remembers of its input topics, from the side: nobody is shut out.

    Args:
        bus: The cluster.
        where: The partition of its changelog.
        topics: Its input topics.
        tables: Those whose own positions count; None: all.

    Raises:
        ConfigError: its changelog is not there.
        FormatError: its changelog can't be read.
        StopService: what it has of one of these tables can't be read.
    """
    bus.partitions(where.topic)
    kept = ((each.key or b"", each.value) for each in bus.log(where))
    ledger = ledger_for(AnyState, AnyState())
    meant = {POSITIONS_KEY, TOPIC_IDS_KEY, *(table.encode() for table in tables or ())}
    ledger.restore(each for each in kept if tables is None or each[0] in meant)
    furthest: Positions = {}
    for _, entry in ledger.entries_kept():
        for topic, at in entry.applied.items():
            furthest[topic] = max(furthest.get(topic, 0), at)
    inputs = (Partition(topic, where.number) for topic in topics)
    return {each: _remembered(ledger, bus, each, furthest.get(each.topic, 0)) for each in inputs}


def _remembered(ledger: Ledger[AnyState], bus: Bus, where: Partition, of_tables: int) -> Remembered:
    known = ledger.topic_ids.get(where.topic)
    renewed = known is not None and known != bus.extent(where).topic_id
    return Remembered(ledger.positions.get(where.topic), renewed, of_tables)


def put_memory_back(bus: Bus, prefix: str, plan: GroupReplay) -> None:
    """Put a decider's positions back to where its group will stand.

    Raises:
        GroupInUseError: the service ran since the plan was made; nothing was written.
        FencedError: the service was started meanwhile; its group must not be put back.
        FormatError: its changelog can't be read.
    """
    topic = changelog(plan.service).name(prefix)
    for number in sorted({move.partition.number for move in plan.moves}):
        moves = plan.moves_of(number)
        ids = {m.partition.topic: bus.extent(m.partition).topic_id for m in moves}
        memory = bus.changelog(topic, number)
        try:
            ledger = ledger_for(AnyState, AnyState())
            ledger.restore(memory.read())
            _check_unchanged(ledger, moves)
            memory.write(put_back(ledger, moves, ids, plan.tables))
        finally:
            memory.close()


def _check_unchanged(ledger: Ledger[AnyState], moves: Iterable[Move]) -> None:
    for move in moves:
        if ledger.positions.get(move.partition.topic) != move.remembered:
            raise GroupInUseError(
                f"the service has read on in {move.partition.topic}[{move.partition.number}]"
                " since the plan was made: stop it, and plan again"
            )


def put_back(
    ledger: Ledger[AnyState],
    moves: Sequence[Move],
    topic_ids: Mapping[str, str],
    tables: Collection[str] | None = None,
) -> list[tuple[bytes, bytes | None]]:
    """What to append to a changelog so that its tables count as applied only up to the moves.

    Every prefix of it is safe: the positions come after what the tables are given, and the ids of
    topics last, because until then a decider refuses the topics.

    Args:
        ledger: What the changelog holds.
        moves: Those in the partitions of this changelog's number.
        topic_ids: The broker's ids of these topics: who replays has decided to go on with them.
        tables: The tables that are meant; None: all.
    """
    written: list[tuple[bytes, bytes | None]] = []
    for table, entry in _entries(ledger, moves):
        applied = dict(entry.applied)
        for move in moves:
            _set_applied(applied, table, move, ledger.positions, tables)
        if applied != entry.applied:
            put = replace(entry, applied=applied)
            written.append((table.encode(), ledger.form.dump_json(put)))
    positions = {**ledger.positions, **{m.partition.topic: m.to_offset for m in moves}}
    tail = ((POSITIONS_KEY, positions), (TOPIC_IDS_KEY, {**ledger.topic_ids, **topic_ids}))
    return [*written, *((key, json.dumps(value).encode()) for key, value in tail)]


def _entries(
    ledger: Ledger[AnyState], moves: Iterable[Move]
) -> Iterator[tuple[str, Entry[AnyState]]]:
    """Every table that is remembered, and those of which only the place has to be."""
    others = {table for move in moves if move.share for table in move.share.others}
    for table, entry in ledger.entries_kept():
        others.discard(table)
        yield table, entry
    for table in sorted(others):
        yield table, Entry({}, AnyState())


def _set_applied(
    applied: Positions,
    table: str,
    move: Move,
    positions: Mapping[str, int],
    tables: Collection[str] | None,
) -> None:
    topic = move.partition.topic
    if tables is None or table in tables or move.is_for_all:
        if topic in applied:
            applied[topic] = min(applied[topic], move.to_offset)
    elif move.share and table in move.share.others and topic in positions:
        applied[topic] = max(applied.get(topic, 0), positions[topic])
