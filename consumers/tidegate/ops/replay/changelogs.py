"""Reset the positions in a decider's changelog; the states themselves stay.

A decider's changelog records up to which offset each input was applied, so a group whose offsets
alone are reset would skip everything that it reads again. The positions are therefore reset with
it, and fenced: a process that still had the partition can no longer
overwrite them, and one that is assigned it afterwards fences us.

The states stay, on purpose. They contain what makes a repeated event recognisable: the instants for
which a savepoint was requested, the vacuums that were released, the locks and transactions that
have ended. A decider without these would request all of it again, and a vacuum whose locks were
released long ago, by events that are no longer in their topic, would wait for ever. An event that
is read again is thus a duplicate, which every decider must tolerate anyway: what it missed (an
event dead-lettered by faulty code, a table that no rule covered then) is made up for, and what it
did is not done again. A command that is sent again all the same has the id that it had, and the
executors recognise it by its outcome.

Where only some tables are selected, the positions of the partition are reset all the same, because
they cover every table. Each other table with records in that span gets positions of its own, at the
offset up to which it was applied, so that those records are skipped for it: nothing is decided
anew. Only where the offsets are meaningless (the topic was created again) are all tables reset.

Until the service has run, these are ahead of the partition's. A replay of such a table, or of all,
is therefore planned from its own positions too: the partition's may be at the target already.

The changelog is reset before the group's offsets. A crash in between leaves positions below the
offsets: the decider refuses to start, and the replay is run once more.
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
    """Read how far a decider has applied its input topics, without fencing it.

    Args:
        bus: The cluster.
        where: The partition of its changelog.
        topics: Its input topics.
        tables: Those whose own positions count; None: all.

    Raises:
        ConfigError: the changelog topic does not exist.
        FormatError: the changelog cannot be decoded.
        StopService: the record of one of these tables cannot be decoded.
    """
    bus.partitions(where.topic)
    records = ((each.key or b"", each.value) for each in bus.log(where))
    store = state_store_for(AnyState, AnyState())
    wanted = {POSITIONS_KEY, TOPIC_IDS_KEY, *(table.encode() for table in tables or ())}
    store.restore(record for record in records if tables is None or record[0] in wanted)
    furthest: Positions = {}
    for _, record in store.tables():
        for topic, at in record.applied.items():
            furthest[topic] = max(furthest.get(topic, 0), at)
    inputs = (Partition(topic, where.number) for topic in topics)
    return {
        each: _applied_position(store, bus, each, furthest.get(each.topic, 0)) for each in inputs
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
        ids = {part.topic: each.topic_id for part, each in found.items()}
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
                f"the service has read on in {reset.partition.topic}[{reset.partition.number}]"
                " since the plan was made: stop it, and plan again"
            )


def reset_records(
    store: StateStore[AnyState],
    resets: Sequence[OffsetReset],
    topic_ids: Mapping[str, str],
    tables: Collection[str] | None = None,
) -> list[tuple[bytes, bytes | None]]:
    """What to append to a changelog so that its tables count as applied up to the resets only.

    Every prefix of it is safe: the positions come after the tables' own, and the ids of topics
    last, because until then a decider refuses the topics.

    Args:
        store: What the changelog contains.
        resets: Those in the partitions of this changelog's number.
        topic_ids: The broker's ids of these topics: a replay accepts the topics as they are now.
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
    """Every table with a state, and those without one that only need positions."""
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
