"""On a real broker: what a stranger writes, and what a location refuses, stop no service."""

from __future__ import annotations

import random
import signal
import struct
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support.acid import FIVE_LISTINGS, INSERTS, MINOR_3, NOON, build, names_in, release
from support.deployment import Deployment, end
from support.interfering import Interfering
from support.samples import EveryThird, commit, message, savepoint_request, task_message
from support.samples import release as lock_release
from support.waiting import wait_for
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects
from tidegate.embedded.process import Child
from tidegate.errors import DeadLetterFlood
from tidegate.events import CleaningHoldRequested, Event, RestoreRequested, VacuumFinished
from tidegate.ops.status import read_status
from tidegate.ops.topics import create_topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letter_limit import FAULT_HEADER
from tidegate.runtime.input.dead_letters import counted
from tidegate.runtime.input.uncopied import OF_A_KEY, OF_A_PARTITION
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.catalogue import NAMES
from tidegate.service.settings import Settings, TopicSettings
from tidegate.tables.claim import HIVE
from tidegate.tables.warehouse import OpenFolder, Warehouse

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
INPUTS = ("commits", "vacuums", "locks", "requests", "tasks", "outcomes")
SERVICES = NAMES
ROUNDS = 4


@pytest.fixture
def deployment(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as deployment:
        yield deployment


Shape = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


def shapes(rng: random.Random) -> list[Shape]:
    """About fifty messages that no service can process, by key, value and headers."""
    table = f"lake.strange.t{rng.randrange(10**9)}"
    key, valid = table.encode(), message(commit(1, table)).value or b""
    released = task_message(savepoint_request(1, table)).value or b""
    flipped = bytearray(valid)
    flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    values = [
        *(None, b"", b"\0", b"\xff" * 40, b"{}", b'{"table": 1}', b"[" * 20_000, b"junk"),
        *(rng.randbytes(size) for size in (1, 2, 7, 10, 11, 64, 1000, 5000, 900_000)),
        *(b"\0" + struct.pack(">I", number) + rng.randbytes(30) for number in (0, 1, 2**32 - 1)),
        *(b"\xc3\x01" + rng.randbytes(size) for size in (0, 1, 7, 8, 9, 300)),
        *(valid[:size] for size in (3, 9, 10, 11, 30, len(valid) - 1)),
        *(
            valid[:10] + tail
            for tail in (b"\xff" * 11, b"\xfe\xff\xff\xff\x0f", b"\x01", bytes(90))
        ),
        *(released[:10] + rng.randbytes(200), valid + valid, valid + b"\0", bytes(flipped)),
        *(b"Obj\x01" + valid, b"PK\x03\x04", b"\x1f\x8b\x08" + rng.randbytes(20)),
    ]
    found: list[Shape] = [(key, value, ()) for value in values]
    wrong_keys = (
        None,
        b"",
        b"\xff\xfe",
        b"lake.other.table",
        key + b"\0",
        key.upper(),
        b"k" * 70_000,
    )
    found += [(wrong, valid, ()) for wrong in wrong_keys]
    found += [
        (key, b"junk", [("ce_id", b"\xff")]),
        (key, b"junk", [("ce_type", b"io.tidegate.Nothing"), ("ce_type", None)]),
        (key, b"junk", [("h", None)] * 500),
        (key, b"junk", [("content-type", b"application/json"), ("traceparent", b"00-zz")]),
    ]
    return found


def garbage(deployment: Deployment, rng: random.Random) -> int:
    """Write every shape to every partition of every input; return how many messages that were."""
    producer = Producer({**deployment.connection, "log_level": 0})
    count = 0
    for suffix in INPUTS:
        for number in range(deployment.topics.partitions):
            for key, value, headers in shapes(rng):
                producer.produce(
                    f"{deployment.prefix}.{suffix}",
                    key=key,
                    value=value,
                    headers=list(headers),
                    partition=number,
                )
                count += 1
    assert producer.flush(60) == 0
    return count


def restore_request(table: str) -> RestoreRequested:
    asked = commit(1, table)
    return RestoreRequested.about(
        asked,
        savepoint=asked.instant,
        reason="a test",
        requested_by="ana",
        source="test",
        occurred_at=NOON,
    )


def hold_request(table: str) -> CleaningHoldRequested:
    return CleaningHoldRequested.about(
        commit(1, table), requested_by="ana", reason="a report", source="test", occurred_at=NOON
    )


def outcomes_of(deployment: Deployment, table: str) -> set[str]:
    read = deployment.records("outcomes")
    kinds: set[str] = set()
    for record in read:
        if record.key == table.encode():
            kinds.add((dict(record.headers).get("ce_type") or b"").decode().rpartition(".")[2])
    return kinds


def serve(deployment: Deployment, running: dict[str, Child], number: int) -> None:
    """Each service processes valid events of a table that is new."""
    table = f"hive.default.valid_{number}"
    place = build(deployment.folder / table, FIVE_LISTINGS[1].directories)
    ids = release().valid_write_ids.replace("default.table_txn_001", table[5:])
    released = release(str(place), table=table, valid_write_ids=ids)
    fields = released.model_dump(include=set(VacuumFinished.model_fields) - {"event_id"})
    own = {"own_lock_id": 1, "locks": ({"lock_id": 1},), "caused_by": None}
    vacuum = VacuumFinished.model_validate(fields | own)
    held = table.replace("valid", "held")
    deployment.publisher().publish(
        vacuum,
        lock_release(1, table),
        savepoint_request(1, table),
        restore_request(table),
        hold_request(held),
    )
    wanted = {"DirectoriesCleaned", "SavepointRejected", "RestoreRejected", "CleaningHeld"}

    def is_served() -> bool:
        ended = {
            name: process.exit_code
            for name, process in running.items()
            if process.exit_code is not None
        }
        assert not ended, f"{ended}: {[running[name].log.read_text()[-2000:] for name in ended]}"
        return wanted <= outcomes_of(deployment, table) | outcomes_of(deployment, held)

    wait_for(f"outcomes of {table} from every service", is_served)
    assert names_in(place) == [HIVE, MINOR_3]


def test_garbage_on_every_input_stops_no_service_now_or_at_its_next_start(
    deployment: Deployment,
) -> None:
    rng = random.Random(1)  # noqa: S311 - bytes, no secret
    running = {name: deployment.run(name) for name in SERVICES}
    serve(deployment, running, 0)

    for number in range(1, ROUNDS):
        garbage(deployment, rng)
        serve(deployment, running, number)

    for child in running.values():
        end(child)
    garbage(deployment, rng)
    again = {name: deployment.run(name, f"{name}-again") for name in SERVICES}
    serve(deployment, again, ROUNDS)


@pytest.fixture
def prefix(bootstrap_servers: str, topic_prefix: str) -> str:
    topics = TopicSettings(prefix=topic_prefix, partitions=1)
    create_topics({"bootstrap.servers": bootstrap_servers}, topics)
    return topic_prefix


def test_sixty_tables_that_refuse_their_removal_do_not_keep_the_next_one_from_being_cleaned(
    bootstrap_servers: str, prefix: str, tmp_path: Path
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    layout = FIVE_LISTINGS[1].directories
    refused = [build(tmp_path / f"refused_{number}", layout) for number in range(60)]
    last = build(tmp_path / "last", layout)
    cleaner = Cleaner(Refusing(tmp_path, last), ThreadMap(1), lambda: NOON)
    bus.send(
        [
            message(cleaning(place, f"hive.default.{place.name}"), prefix)
            for place in (*refused, last)
        ]
    )
    stop = threading.Event()
    loop = ExecutorLoop(cleaner, bus, prefix, retries=RetryPolicy(attempts=2, first=0.01))
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    try:
        wait_for("the last table is clean", lambda: names_in(last) == [HIVE, MINOR_3])
        dead_topic = f"{prefix}.dead-letters"
        wait_for("the dead letters", lambda: sum(map(len, bus.spans(dead_topic).values())) == 60)
    finally:
        stop.set()
        thread.join(30)
        loop.close()
    found = [dict(record.headers)[FAULT_HEADER] for record in bus.read(bus.spans(dead_topic))]
    bus.close()

    assert found == [b"location"] * 60
    assert all(names_in(place) == sorted([HIVE, MINOR_3, *INSERTS]) for place in refused)


class Refusing(Interfering):
    """Every location but one refuses that anything is removed.

    As the warehouse's owner, or root, a test can't be refused by the permissions of a directory.
    """

    def __init__(self, root: Path, allowed: Path) -> None:
        super().__init__(root, self.refuse)
        self.allowed = str(allowed)

    def refuse(self, name: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        kind = Warehouse if location == self.allowed else Interfering
        with kind.opened(self, location) as folder:
            yield folder


def cleaning(place: Path, table: str) -> Event:
    ids = release().valid_write_ids.replace("default.table_txn_001", table[5:])
    return release(str(place), table=table, valid_write_ids=ids)


class BadCode(EveryThird):
    """A decider with a bug that every commit meets."""

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:  # noqa: ARG002 - the protocol's
        raise ValueError("a bug")


def test_our_own_bug_on_many_tables_stops_the_service_at_each_start(
    bootstrap_servers: str, prefix: str
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    bus.send([message(commit(1, f"lake.a.t{number}"), prefix) for number in range(90)])
    for _ in range(3):
        loop = CoordinatorLoop(BadCode(), bus, prefix)
        with pytest.raises(DeadLetterFlood):
            loop.run(threading.Event())
        loop.close()
    dead_topic = bus.spans(f"{prefix}.dead-letters")
    found = [dict(record.headers)[FAULT_HEADER] for record in bus.read(dead_topic)]
    bus.close()

    assert found == [b"service"] * 50


def counted_in(records: Iterable[Record]) -> int:
    """How many messages dead letters stand for."""
    return sum(counted(record.headers)[1] for record in records)


def test_a_flood_is_recorded_whole_in_few_dead_letters_and_what_follows_goes_on(
    bootstrap_servers: str, prefix: str
) -> None:
    flood, rng = 30_000, random.Random(2)  # noqa: S311 - bytes, no secret
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    topic = f"{prefix}.commits"
    for _ in range(flood // 1000):
        bus.send([Message(topic, rng.randbytes(8), rng.randbytes(40), (), 0) for _ in range(1000)])
    bus.send([message(commit(number), prefix) for number in range(3)])
    loop, stop = CoordinatorLoop(EveryThird(), bus, prefix), threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    outcomes = f"{prefix}.outcomes"
    wait_for("the outcome", lambda: sum(map(len, bus.spans(outcomes).values())) == 1)
    stop.set()
    thread.join(30)
    loop.close()
    written = list(bus.read(bus.spans(f"{prefix}.dead-letters")))
    bus.close()

    assert counted_in(written) == flood
    assert len(written) <= OF_A_PARTITION + 2


def test_what_a_killed_process_has_recorded_its_successor_writes(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    settings = Settings.load(deployment.settings_file("people", {}))
    bus, sent = KafkaBus(deployment.connection), 300

    def is_read() -> bool:
        now = datetime.now(UTC)
        gates = [
            service
            for service in read_status(settings, now, now)["services"]
            if service["service"] == "coordinator"
        ]
        return bool(gates[0]["lag"] == 0)

    gate = deployment.run("coordinator")
    bus.send([Message(f"{deployment.prefix}.locks", b"lake.a.b", b"junk") for _ in range(sent)])
    wait_for("dead letters", lambda: deployment.records("dead-letters"))
    wait_for("everything is read", is_read)
    gate.end(signal.SIGKILL, 20)
    assert len(deployment.records("dead-letters")) == OF_A_KEY

    successor = deployment.run("coordinator", "successor")
    wait_for("it owns its partitions", lambda: "owns partitions" in successor.log.read_text())
    end(successor)
    bus.close()
    assert successor.exit_code == 0
    assert counted_in(deployment.records("dead-letters")) == sent
    assert len(deployment.records("dead-letters")) == OF_A_KEY + 1
