"""A replay for some tables: the partition goes back, and the other tables pass over it."""

from __future__ import annotations

import pytest

from support.samples import commit, message
from tidegate.cleaning import ReaderGate
from tidegate.doctor.partitioner import MURMUR2
from tidegate.errors import ConfigError
from tidegate.events import SavepointRequested
from tidegate.events.message import event_of
from tidegate.publisher import Message
from tidegate.replay.groups import GroupInUseError
from tidegate.replay.keys import murmur2, partition_of
from tidegate.replay.memory import AnyState, put_back, put_memory_back
from tidegate.replay.plan import GroupReplay, Move, Share
from tidegate.replay.tables import places_of, shared_out
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.decider_loop import DeciderLoop
from tidegate.runtime.ledger import Ledger, ledger_for
from tidegate.runtime.memory import MemoryBus
from tidegate.savepoints import (
    SavepointMode,
    SavepointPolicy,
    SavepointPolicyService,
    SavepointRule,
)

COMMITS = Partition("tidegate.commits", 0)
ORDERS, OTHER = "lake.sales.orders", "lake.sales.other"


def test_a_table_s_partition_is_the_one_that_kafka_s_own_client_computes() -> None:
    assert {key: murmur2(key.encode()) for key in MURMUR2} == {
        key: known & 0xFFFFFFFF for key, known in MURMUR2.items()
    }
    assert partition_of("lake.sales.orders", 6) == ((-158059582) & 0x7FFFFFFF) % 6


def test_a_table_on_another_partition_than_the_one_meant_is_refused() -> None:
    number = partition_of(ORDERS, 6)

    assert places_of(["LAKE.Sales.orders"], 6, only=None) == {ORDERS: number}
    assert places_of([ORDERS], 6, only=number) == {ORDERS: number}
    with pytest.raises(ConfigError, match=f"lies on partition {number}, not on"):
        places_of([ORDERS], 6, only=(number + 1) % 6)
    with pytest.raises(ConfigError, match="is named catalog"):
        places_of(["orders"], 6, only=None)


def record(offset: int, key: bytes | None, partition: Partition = COMMITS) -> Record:
    return Record(partition, offset, key, b"", (), 0)


def test_a_plan_tells_the_tables_records_from_those_that_come_along() -> None:
    locks = Partition("tidegate.locks", 0)
    away = Partition("tidegate.vacuums", 0)
    moves = (Move(COMMITS, 4, 0, 4), Move(locks, 1, 0, 1), Move(away, 9, 3, 0, fault="gone"))
    plan = GroupReplay("reader-gate", "g", moves, tables={ORDERS: 0})
    records = [
        record(0, ORDERS.encode()),
        record(1, OTHER.encode()),
        record(2, None),
        record(3, b"\xff"),
        record(0, OTHER.encode(), locks),
    ]

    shared = shared_out(plan, records)

    # the locks have nothing of the table and stay; what would not start is put right
    assert [move.partition for move in shared.moves] == [COMMITS, away]
    assert shared.moves[0].share == Share({ORDERS: 1}, 3, frozenset({OTHER}))
    assert shared.moves[1].share == Share({}, 0, frozenset())


KNOWN = b'{"applied":{"c":7,"l":3},"state":{"released_vacuums":{"v1":1763726400000}}}'
QUIET = b'{"applied":{"c":2,"l":2},"state":{"x":[1]}}'


def kept() -> Ledger[AnyState]:
    ledger = ledger_for(AnyState, AnyState())
    ledger.restore(
        [
            (ORDERS.encode(), KNOWN),
            (OTHER.encode(), QUIET),
            (b"\x00positions", b'{"c":9,"l":3}'),
            (b"\x00topic-ids", b'{"c":"old","l":"L"}'),
        ]
    )
    return ledger


def to(offset: int, share: Share | None = None, *, is_for_all: bool = False) -> Move:
    return Move(Partition("c", 0), 9, offset, 9 - offset, is_for_all=is_for_all, share=share)


TAIL = [
    (b"\x00positions", b'{"c": 4, "l": 3}'),
    (b"\x00topic-ids", b'{"c": "new", "l": "L"}'),
]
ORDERS_BACK = (
    b"lake.sales.orders",
    b'{"applied":{"c":4,"l":3},"state":{"released_vacuums":{"v1":1763726400000}}}',
)


def test_a_decider_s_positions_go_back_and_its_states_stay() -> None:
    assert put_back(kept(), [to(4)], {"c": "new"}) == [ORDERS_BACK, *TAIL]


def test_of_a_partition_that_goes_back_for_one_table_the_others_are_applied_as_before() -> None:
    share = Share({ORDERS: 1}, 2, frozenset({OTHER, "lake.sales.empty"}))

    assert put_back(kept(), [to(4, share)], {"c": "new"}, {ORDERS}) == [
        ORDERS_BACK,
        (b"lake.sales.other", b'{"applied":{"c":9,"l":2},"state":{"x":[1]}}'),
        (b"lake.sales.empty", b'{"applied":{"c":9},"state":{}}'),
        *TAIL,
    ]


def test_on_a_topic_that_was_created_again_no_table_s_offsets_count() -> None:
    share = Share({ORDERS: 1}, 1, frozenset({OTHER}))

    written = put_back(kept(), [to(0, share, is_for_all=True)], {"c": "new"}, {ORDERS})

    assert [value for key, value in written if key == OTHER.encode()] == [
        b'{"applied":{"c":0,"l":2},"state":{"x":[1]}}'
    ]


@pytest.mark.parametrize("decider", [SavepointPolicyService(SavepointPolicy()), ReaderGate()])
def test_a_table_of_which_only_the_place_is_known_has_the_initial_state(
    decider: SavepointPolicyService | ReaderGate,
) -> None:
    share = Share({}, 1, frozenset({"lake.sales.empty"}))
    initial: object = decider.initial()
    ledger = ledger_for(type(initial), initial)

    written = put_back(kept(), [to(4, share)], {"c": "new"}, {ORDERS})
    ledger.restore(each for each in written if each[0] == b"lake.sales.empty")

    [(_, entry)] = ledger.entries_kept()
    assert (entry.state, entry.applied) == (initial, {"c": 9})


def savepoints_on(*tables: str) -> SavepointPolicyService:
    rules = (SavepointRule(pattern=each, mode=SavepointMode.EVERY_COMMIT) for each in tables)
    return SavepointPolicyService(SavepointPolicy(rules=tuple(rules)))


def send(bus: MemoryBus, events: list[tuple[int, str]]) -> None:
    for number, table in events:
        sent = message(commit(number, table))
        bus.send([Message(sent.topic, sent.key, sent.value, sent.headers, 0)])


def work(bus: MemoryBus, decider: SavepointPolicyService) -> None:
    loop = DeciderLoop(decider, bus)
    while loop.step(0):
        pass
    loop.close()


def asked(bus: MemoryBus) -> list[tuple[str, int]]:
    commands = (event_of(each.key, each.value) for each in bus.records("tidegate.commands"))
    return [
        (each.table, int(each.instant[-3:]))
        for each in commands
        if isinstance(each, SavepointRequested) and each.instant
    ]


def test_what_one_table_missed_is_made_up_for_and_what_others_missed_is_not() -> None:
    bus = MemoryBus(
        ["tidegate.commits", "tidegate.commands", "tidegate.savepoint-policy.changelog"], 1
    )
    group = "tidegate.savepoint-policy"
    third = "lake.sales.third"
    send(bus, [(1, ORDERS), (2, OTHER), (3, third)])
    work(bus, savepoints_on())
    send(bus, [(4, OTHER), (5, ORDERS)])
    work(bus, savepoints_on(OTHER))
    assert asked(bus) == [(OTHER, 4)]
    share = Share({ORDERS: 2}, 3, frozenset({OTHER, third}))
    moves = (Move(COMMITS, 5, 0, 5, remembered=5, share=share),)
    plan = GroupReplay("savepoint-policy", group, moves, tables={ORDERS: 0})

    put_memory_back(bus, "tidegate", plan)
    bus.committed[group][COMMITS] = 0
    send(bus, [(6, OTHER), (7, third)])
    work(bus, savepoints_on("*"))

    # of the others what was applied without a command (2 and 3) stays as it was decided then
    assert asked(bus)[1:] == [(ORDERS, 1), (ORDERS, 5), (OTHER, 6), (third, 7)]


def test_a_memory_that_went_on_since_the_plan_is_left_alone() -> None:
    bus = MemoryBus(
        ["tidegate.commits", "tidegate.commands", "tidegate.savepoint-policy.changelog"], 1
    )
    send(bus, [(1, ORDERS)])
    work(bus, savepoints_on("*"))
    before = bus.records("tidegate.savepoint-policy.changelog")[:]
    moves = (Move(COMMITS, 0, 0, 0, remembered=None),)
    plan = GroupReplay("savepoint-policy", "tidegate.savepoint-policy", moves)

    with pytest.raises(GroupInUseError, match="plan again"):
        put_memory_back(bus, "tidegate", plan)

    assert bus.records("tidegate.savepoint-policy.changelog") == before
