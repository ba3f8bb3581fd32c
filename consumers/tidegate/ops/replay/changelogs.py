"""Reset the positions in a decider's changelog; the tables' states are unchanged.

A decider's changelog records the offset up to which each input was applied. If only the group's
offsets were reset, the decider would skip everything that it reads again. So the positions are
reset with the offsets, under the decider's fencing: a process that still had the partition can no
longer overwrite them, and a process that acquires it afterwards fences the replay.

The states stay on purpose, because they make repeated events recognisable: the instants of
requested savepoints, the released vacuums, the ended locks and transactions. Without them a decider
would request everything again, and a vacuum whose releases are no longer on their topic would wait
forever. An event that is read again is thus a duplicate, which every decider tolerates. The decider
makes up for missed events (dead-lettered by faulty code, or of a table that no rule covered), and
does not repeat completed work. A repeated command has the same id as before, and executors
recognise it by its outcome.

If only some tables are selected, the positions of the partition are still reset, because they cover
every table. Each other table with records in the span gets its own positions, at the offset up to
which it was applied, so these records are skipped for it. Only if the offsets are meaningless,
because the topic was recreated, are all tables reset.

Until the service has run, tables' own positions are ahead of the partition's, which may be at the
target already. So a replay of such a table, or of all tables, also considers its own positions.

The changelog is reset before the group's offsets. After a crash in between, the positions are below
the offsets: the decider refuses to start until the replay is run again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.events import Value
from tidegate.events.topics import changelog
from tidegate.ops.groups import GroupInUseError
from tidegate.ops.replay.plan import AppliedPosition, GroupReplay, OffsetReset
from tidegate.runtime.bus import Bus, Partition
from tidegate.runtime.decider.state_record import Positions, StateRecord
from tidegate.runtime.decider.state_store import (
    POSITIONS_KEY,
    TOPIC_IDS_KEY,
    StateStore,
    state_store_for,
)


class AnyState(Value, frozen=True, extra="allow"):
    """A decider's state of any shape: a replay copies it without interpreting it."""


def applied_positions(
    bus: Bus,
    where: Partition,
    topics: Iterable[str],
    tables: Collection[str] | None = None,
) -> dict[Partition, AppliedPosition]:
    """Read the positions up to which a decider applied its input topics, without fencing it.

    Args:
        bus: The cluster.
        where: The partition of its changelog.
        topics: Its input topics.
        tables: The tables whose own positions count; None: all.

    Raises:
        ConfigError: the changelog topic does not exist.
        FormatError: the changelog cannot be decoded.
        StopService: the record of one of these tables cannot be decoded.
    """
    bus.partitions(where.topic)
    records = ((record.key or b"", record.value) for record in bus.log(where))
    store = state_store_for(AnyState, AnyState())
    wanted = {POSITIONS_KEY, TOPIC_IDS_KEY, *(table.encode() for table in tables or ())}
    store.restore(record for record in records if tables is None or record[0] in wanted)
    furthest: Positions = {}
    for _, record in store.tables():
        for topic, at in record.applied.items():
            furthest[topic] = max(furthest.get(topic, 0), at)
    inputs = (Partition(topic, where.number) for topic in topics)
    return {
        part: _applied_position(store, bus, part, furthest.get(part.topic, 0)) for part in inputs
    }


def _applied_position(
    store: StateStore[AnyState], bus: Bus, where: Partition, furthest: int
) -> AppliedPosition:
    known = store.topic_ids.get(where.topic)
    recreated = known is not None and known != bus.watermarks([where])[where].topic_id
    return AppliedPosition(store.positions.get(where.topic), recreated, furthest)


def reset_state(bus: Bus, prefix: str, plan: GroupReplay) -> None:
    """Reset the positions in a decider's changelog to the new offsets of its group.

    Raises:
        GroupInUseError: the service ran since the plan was made; nothing was written.
        FencedError: the service was started meanwhile; its group must not be reset.
        FormatError: the changelog cannot be decoded.
    """
    topic = changelog(plan.service).name(prefix)
    for number in sorted({reset.partition.number for reset in plan.resets}):
        resets = plan.resets_of(number)
        found = bus.watermarks([reset.partition for reset in resets])
        ids = {part.topic: marks.topic_id for part, marks in found.items()}
        log = bus.changelog(topic)
        try:
            store = state_store_for(AnyState, AnyState())
            for _, records in log.acquire([number]):
                store.restore(records)
            _check_unchanged(store, resets)
            log.write({number: reset_records(store, resets, ids, plan.tables)})
        finally:
            log.close()


def _check_unchanged(store: StateStore[AnyState], resets: Iterable[OffsetReset]) -> None:
    for reset in resets:
        if store.positions.get(reset.partition.topic) != reset.applied:
            raise GroupInUseError(
                f"the service has read more of {reset.partition.topic}[{reset.partition.number}]"
                " since the plan was made: stop it, and plan again"
            )


def reset_records(
    store: StateStore[AnyState],
    resets: Sequence[OffsetReset],
    topic_ids: Mapping[str, str],
    tables: Collection[str] | None = None,
) -> list[tuple[bytes, bytes | None]]:
    """The records to append to a changelog, so that its tables count as applied up to the resets.

    A crash after any of them is safe: the partition's positions come after the tables' own, and the
    topic ids come last, because a decider refuses the topics until then.

    Args:
        store: The content of the changelog.
        resets: The resets of the input partitions with this changelog partition's number.
        topic_ids: The broker's current ids of the topics, which the replay accepts.
        tables: The selected tables; None: all.
    """
    written: list[tuple[bytes, bytes | None]] = []
    for table, record in _records(store, resets):
        applied = dict(record.applied)
        for reset in resets:
            _set_applied(applied, table, reset, store.positions, tables)
        if applied != record.applied:
            changed = replace(record, applied=applied)
            written.append((table.encode(), store.adapter.dump_json(changed)))
    positions = {**store.positions, **{r.partition.topic: r.to_offset for r in resets}}
    tail = ((POSITIONS_KEY, positions), (TOPIC_IDS_KEY, {**store.topic_ids, **topic_ids}))
    return [*written, *((key, json.dumps(value).encode()) for key, value in tail)]


def _records(
    store: StateStore[AnyState], resets: Iterable[OffsetReset]
) -> Iterator[tuple[str, StateRecord[AnyState]]]:
    """Every table with a state, and tables without a state that only need positions."""
    others = {table for reset in resets if reset.counts for table in reset.counts.other_tables}
    for table, record in store.tables():
        others.discard(table)
        yield table, record
    for table in sorted(others):
        yield table, StateRecord({}, AnyState())


def _set_applied(
    applied: Positions,
    table: str,
    reset: OffsetReset,
    positions: Mapping[str, int],
    tables: Collection[str] | None,
) -> None:
    topic = reset.partition.topic
    if tables is None or table in tables or reset.is_for_all:
        if topic in applied:
            applied[topic] = min(applied[topic], reset.to_offset)
    elif reset.counts and table in reset.counts.other_tables and topic in positions:
        applied[topic] = max(applied.get(topic, 0), positions[topic])
