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

The memory is put back before the group's offsets. A crash in between leaves positions that lie
below the offsets: the decider goes on where its group stands, and nothing is applied twice, because
nothing is read twice. The replay is then run once more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.events import Value
from tidegate.events.topics import changelog
from tidegate.replay.plan import GroupReplay
from tidegate.runtime.bus import Bus, Partition
from tidegate.runtime.ledger import POSITIONS_KEY, TOPIC_IDS_KEY, Ledger, ledger_for


class AnyState(Value, frozen=True, extra="allow"):
    """A decider's state, whatever it holds: a replay carries it over unread."""


def put_memory_back(bus: Bus, prefix: str, plan: GroupReplay) -> None:
    """Put a decider's positions back to where its group will stand.

    Raises:
        FencedError: the service was started meanwhile; its group must not be put back.
        FormatError: its changelog can't be read.
    """
    topic = changelog(plan.service).name(prefix)
    for number in sorted({move.partition.number for move in plan.moves}):
        back = plan.back(number)
        ids = {each: bus.extent(Partition(each, number)).topic_id for each in back}
        memory = bus.changelog(topic, number)
        try:
            ledger = ledger_for(AnyState, AnyState())
            ledger.restore(memory.read())
            memory.write(put_back(ledger, back, ids))
        finally:
            memory.close()


def put_back(
    ledger: Ledger[AnyState], back: Mapping[str, int], topic_ids: Mapping[str, str]
) -> list[tuple[bytes, bytes | None]]:
    """What to append to a changelog so that each topic counts as applied only up to its offset.

    Args:
        ledger: What the changelog holds.
        back: The offset by topic.
        topic_ids: The broker's ids of these topics: who replays has decided to go on with them.
    """
    written: list[tuple[bytes, bytes | None]] = []
    for table, entry in ledger.entries_kept():
        applied = {topic: min(at, back.get(topic, at)) for topic, at in entry.applied.items()}
        if applied != entry.applied:
            put = entry.model_copy(update={"applied": applied})
            written.append((table.encode(), put.model_dump_json().encode()))
    ids, positions = {**ledger.topic_ids, **topic_ids}, {**ledger.positions, **back}
    tail = ((TOPIC_IDS_KEY, ids), (POSITIONS_KEY, positions))
    return [*written, *((key, json.dumps(value).encode()) for key, value in tail)]
