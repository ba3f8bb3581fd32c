"""Reset the position in the coordinator's changelog; the rows themselves stay.

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

from collections.abc import Collection, Iterable, Mapping, Sequence

from tidegate.coordinator.store import AHEAD, Store, dumps
from tidegate.events.topics import changelog
from tidegate.ops.groups import GroupInUseError
from tidegate.ops.replay.plan import AppliedPosition, GroupReplay, OffsetReset
from tidegate.runtime.bus import Bus, Partition


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
        each: _applied_position(store, bus, each, furthest.get(each.topic, 0)) for each in inputs
    }


def _applied_position(store: Store, bus: Bus, where: Partition, furthest: int) -> AppliedPosition:
    known = store.position.topic_ids.get(where.topic)
    recreated = known is not None and known != bus.watermarks([where])[where].topic_id
    return AppliedPosition(store.position.offsets.get(where.topic), recreated, furthest)


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
                f"the service has read on in {reset.partition.topic}[{reset.partition.number}]"
                " since the plan was made: stop it, and plan again"
            )


def reset_records(
    store: Store,
    resets: Sequence[OffsetReset],
    topic_ids: Mapping[str, str],
    tables: Collection[str] | None = None,
) -> list[tuple[bytes, bytes | None]]:
    """What to append to a changelog so that its tables count as applied up to the resets only.

    Args:
        store: What the changelog contains.
        resets: Those in the partitions of this changelog's number.
        topic_ids: The broker's ids of these topics: a replay accepts the topics as they are now.
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
