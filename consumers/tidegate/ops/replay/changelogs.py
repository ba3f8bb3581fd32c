"""Reset the position in the coordinator's changelog; the rows themselves stay.

The changelog records the offset up to which each input was applied. If only the group's
offsets were reset, the coordinator would skip everything that it reads again. So the positions are
reset with the offsets, under the coordinator's fencing: a process that still had the partition can
no longer overwrite them, and a process that acquires it afterwards fences the replay.

The states stay on purpose, because they make repeated events recognisable: the instants of
requested savepoints, the released vacuums, the ended locks and transactions. Without them all would
be requested again, and a vacuum whose releases are no longer on their topic would wait forever. An
event that is read again is thus a duplicate, which is tolerated. The coordinator makes up for
missed events (dead-lettered by faulty code, or of a table that no rule covered), and
does not repeat completed work. A repeated command has the same id as before, and executors
recognise it by its outcome.

If only some tables are selected, the positions of the partition are still reset, because they cover
every table. Each other table with records in the span gets its own positions, at the offset up to
which it was applied, so these records are skipped for it. Only if the offsets are meaningless,
because the topic was recreated, are all tables reset.

Until the service has run, tables' own positions are ahead of the partition's, which may be at the
target already. So a replay of such a table, or of all tables, also considers its own positions.

The changelog is reset before the group's offsets. After a crash in between, the positions are below
the offsets: the coordinator refuses to start until the replay is run again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tidegate.coordinator.store import AHEAD, Store, dumps
from tidegate.events.topics import CHANGELOG
from tidegate.ops.groups import GroupInUseError
from tidegate.ops.replay.plan import AppliedPosition, GroupReplay, OffsetReset
from tidegate.runtime.bus import Bus, Partition


def applied_positions(
    bus: Bus,
    where: Partition,
    topics: Iterable[str],
    tables: Collection[str] | None = None,
) -> dict[Partition, AppliedPosition]:
    """Read the positions up to which the coordinator applied its input topics, without fencing it.

    Args:
        bus: The cluster.
        where: The partition of its changelog.
        topics: Its input topics.
        tables: The tables whose own positions count; None: all.

    Raises:
        ConfigError: the changelog topic does not exist.
        FormatError: the changelog cannot be decoded.
    """
    bus.partitions(where.topic)
    store = Store(())
    store.restore((record.key or b"", record.value) for record in bus.log(where))
    furthest: dict[str, int] = {}
    for table, applied in store.ahead.items():
        if tables is None or table in tables:
            for topic, at in applied.items():
                furthest[topic] = max(furthest.get(topic, 0), at)
    inputs = (Partition(topic, where.number) for topic in topics)
    return {
        part: _applied_position(store, bus, part, furthest.get(part.topic, 0)) for part in inputs
    }


def _applied_position(store: Store, bus: Bus, where: Partition, furthest: int) -> AppliedPosition:
    known = store.position.topic_ids.get(where.topic)
    recreated = known is not None and known != bus.watermarks([where])[where].topic_id
    return AppliedPosition(store.position.offsets.get(where.topic), recreated, furthest)


def reset_state(bus: Bus, prefix: str, plan: GroupReplay) -> None:
    """Reset the positions in the coordinator's changelog to the new offsets of its group.

    Raises:
        GroupInUseError: the service ran since the plan was made; nothing was written.
        FencedError: the service was started meanwhile; its group must not be reset.
        FormatError: the changelog cannot be decoded.
    """
    topic = CHANGELOG.name(prefix)
    for number in sorted({reset.partition.number for reset in plan.resets}):
        resets = plan.resets_of(number)
        found = bus.watermarks([reset.partition for reset in resets])
        ids = {part.topic: marks.topic_id for part, marks in found.items()}
        log = bus.changelog(topic)
        try:
            store = Store(())
            store.restore(record for _, records in log.acquire([number]) for record in records)
            _check_unchanged(store, resets)
            log.write({number: reset_records(store, resets, ids, plan.tables)})
        finally:
            log.close()


def _check_unchanged(store: Store, resets: Iterable[OffsetReset]) -> None:
    for reset in resets:
        if store.position.offsets.get(reset.partition.topic) != reset.applied:
            raise GroupInUseError(
                f"the service has read more of {reset.partition.topic}[{reset.partition.number}]"
                " since the plan was made: stop it, and plan again"
            )


def reset_records(
    store: Store,
    resets: Sequence[OffsetReset],
    topic_ids: Mapping[str, str],
    tables: Collection[str] | None = None,
) -> list[tuple[bytes, bytes | None]]:
    """The records to append to a changelog, so that its tables count as applied up to the resets.

    Args:
        store: The content of the changelog.
        resets: The resets of the input partitions with this changelog partition's number.
        topic_ids: The broker's current ids of the topics, which the replay accepts.
        tables: The selected tables; None: all.
    """
    others = {table for reset in resets if reset.counts for table in reset.counts.other_tables}
    for table in sorted({*store.ahead, *others}):
        ahead = dict(store.ahead.get(table, {}))
        for reset in resets:
            _set_applied(ahead, table, reset, store.position.offsets, tables)
        if ahead:
            store.ahead[table] = ahead
            store.put(AHEAD.name, table, body=dumps(ahead))
    store.position.offsets |= {reset.partition.topic: reset.to_offset for reset in resets}
    store.position.topic_ids |= topic_ids
    return store.batch()


def _set_applied(
    applied: dict[str, int],
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
