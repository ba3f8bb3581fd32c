"""The doctor's checks, each seen well and each seen ill; no broker is needed for these."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.cleaning import ReaderGate
from tidegate.doctor import Extras, Finding, State, examine
from tidegate.doctor.access import rights_held
from tidegate.doctor.broker import copartitioning
from tidegate.doctor.clock import apart
from tidegate.doctor.finding import Check
from tidegate.doctor.machine import spark_ready
from tidegate.doctor.memory import Remembered
from tidegate.doctor.offsets import gaps
from tidegate.doctor.partitioner import partitioner_agrees
from tidegate.doctor.registry import registry_ready, schemas_held
from tidegate.doctor.retention import compared
from tidegate.doctor.roots import PROBE, root_usable
from tidegate.errors import FormatError, StopService, TransientError
from tidegate.registry import RegistrySettings
from tidegate.runtime.bus import Extent, Partition
from tidegate.runtime.ledger import ledger_for
from tidegate.services import DECIDERS, SERVICES
from tidegate.settings import Settings, SparkSettings
from tidegate.topics.acls import Acl

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LOCKS = Partition("lake.locks", 3)
CLOSED = "127.0.0.1:9"


def test_a_check_that_hangs_has_failed_and_lets_the_others_go_on() -> None:
    never = threading.Event()

    def hang() -> Finding:
        never.wait()
        return Finding("root", State.OK, "")

    began = time.monotonic()
    found = Check("root", hang, seconds=0.1).run()
    took = time.monotonic() - began
    never.set()

    assert (found.check, found.state, found.seen) == ("root", State.FAIL, "no answer in 0.1 s")
    assert took < 5


def test_a_check_that_raises_has_failed_with_what_it_said() -> None:
    def broken() -> Finding:
        raise TransientError("the store does not answer")

    found = Check("root", broken).run()

    assert (found.check, found.state) == ("root", State.FAIL)
    assert found.seen == "TransientError: the store does not answer"


def test_a_fault_of_kafka_that_passes_soon_is_none() -> None:
    faults = [KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))]

    def settle() -> Finding:
        if faults:
            raise faults.pop()
        return Finding("offsets", State.OK, "")

    assert Check("offsets", settle).run().state is State.OK


def test_topics_that_lie_together_are_well() -> None:
    found = copartitioning({"gate": ("vacuums", "locks")}, {"vacuums": 6, "locks": 6})

    assert found == Finding("co-partitioning", State.OK, "the topics of gate lie together")


def test_a_topic_with_another_number_of_partitions_fails() -> None:
    groups = {"gate": ("vacuums", "locks"), "policy": ("commits",)}

    found = copartitioning(groups, {"vacuums": 6, "locks": 3, "commits": 6})

    assert (found.state, found.seen) == (State.FAIL, "gate: vacuums has 6, locks has 3")


def test_topics_that_are_missing_are_not_called_together() -> None:
    found = copartitioning({"gate": ("vacuums", "locks")}, {"vacuums": 6})

    assert (found.state, found.seen) == (State.SKIPPED, "not all topics are there: locks")


@pytest.mark.parametrize("at", [5, 7, 9])
def test_an_offset_within_its_topic_is_well(at: int) -> None:
    found = gaps("reader-gate", "lake", {LOCKS: at}, {LOCKS: range(5, 9)})

    assert (found.state, found.seen) == (State.OK, f"within its topics, {9 - at} records behind")


@pytest.mark.parametrize("at", [4, 10])
def test_an_offset_out_of_its_topic_fails_and_the_reset_is_told(at: int) -> None:
    found = gaps("reader-gate", "lake", {LOCKS: at}, {LOCKS: range(5, 9)})

    assert found == Finding(
        "offsets reader-gate",
        State.FAIL,
        f"goes on at {at} of lake.locks[3], which holds 5 to 9",
        "events were lost; stop it, then go on with: tidegate replay group reader-gate"
        " --topic locks --partition 3 --to-earliest --execute",
    )


def test_an_offset_of_a_partition_that_is_gone_fails() -> None:
    found = gaps("reader-gate", "lake", {LOCKS: 0}, {})

    assert (found.state, found.seen) == (State.FAIL, "goes on at 0 of lake.locks[3], which is gone")


def test_a_service_that_has_not_begun_is_well() -> None:
    assert gaps("reader-gate", "lake", {}, {LOCKS: range(5, 9)}).state is State.OK


DAY = 86_400_000


@pytest.mark.parametrize("minutes", [43_200, 43_201])
def test_offsets_that_outlive_the_commands_are_well(minutes: int) -> None:
    assert compared(minutes, {"lake.commands": 30 * DAY}).state is State.OK


@pytest.mark.parametrize(
    ("minutes", "kept", "told", "needed"),
    [
        pytest.param(
            10_080,
            30 * DAY,
            "for 7 days is forgotten, lake.commands is not for 30 days",
            43_200,
            id="Kafka's default",
        ),
        pytest.param(43_199, 30 * DAY, "lake.commands is not for 30 days", 43_200, id="a minute"),
        pytest.param(43_200, 30 * DAY + 1, "lake.commands is not", 43_201, id="a millisecond"),
        pytest.param(43_200, -1, "lake.commands is not for ever", 2**31 - 1, id="for ever"),
    ],
)
def test_offsets_that_are_forgotten_before_the_commands_are_a_warning(
    minutes: int, kept: int, told: str, needed: int
) -> None:
    found = compared(minutes, {"lake.other": DAY, "lake.commands": kept})

    assert (found.state, found.advice) == (
        State.WARN,
        f"set offsets.retention.minutes={needed} on the brokers",
    )
    assert told in found.seen


def test_retention_without_a_topic_is_not_judged() -> None:
    assert compared(10_080, {}).state is State.SKIPPED


GATE = ReaderGate()
LOCKS_NOW = Extent("today", 0, 10)


def remembered(
    *entries: tuple[bytes, bytes], extent: Extent = LOCKS_NOW, start: int | None = 4
) -> Remembered:
    seen = Remembered()
    ledger = ledger_for(GATE.state_type, GATE.initial())
    seen.add(ledger, entries, [("lake.locks", extent, start)])
    return seen


POSITIONS = (b"\x00positions", b'{"lake.locks": 4}')
IDS = (b"\x00topic-ids", b'{"lake.locks": "today"}')
ORDERS = (b"lake.sales.orders", b'{"applied": {}, "state": {}}')


def test_a_memory_that_fits_its_topics_is_well() -> None:
    found = remembered(IDS, ORDERS, POSITIONS).finding("reader-gate", 2**24)

    assert found == Finding("memory reader-gate", State.OK, "1 tables can be read back")


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(
            remembered(IDS, POSITIONS, extent=Extent("tomorrow", 0, 10)),
            "lake.locks was deleted and created again",
            id="another topic of that name",
        ),
        pytest.param(remembered(IDS), "remembered only up to 0", id="a memory that was lost"),
        pytest.param(
            remembered(IDS, POSITIONS, extent=Extent("today", 5, 10)),
            "it holds 5 to 10: events would be skipped",
            id="events that are gone",
        ),
    ],
)
def test_a_memory_that_does_not_fit_its_topics_fails(seen: Remembered, told: str) -> None:
    found = seen.finding("reader-gate", 2**24)

    assert (found.state, found.advice) == (
        State.FAIL,
        "stop it, then: tidegate replay group reader-gate --to-earliest --execute",
    )
    assert told in found.seen


@pytest.mark.parametrize("key", [b"\x00positions", b"lake.sales.orders"])
def test_a_memory_that_cannot_be_read_is_seen(key: bytes) -> None:
    with pytest.raises((FormatError, StopService), match="can't be read"):
        remembered((key, b"{half"))


def test_a_table_that_takes_more_than_half_of_what_is_allowed_is_a_warning() -> None:
    most = 2 * len(ORDERS[1])
    small = remembered(IDS, ORDERS, POSITIONS).finding("reader-gate", most)
    large = remembered(IDS, ORDERS, POSITIONS).finding("reader-gate", most - 1)

    assert (small.state, large.state) == (State.OK, State.WARN)
    assert "that of lake.sales.orders takes" in large.seen


def test_a_right_that_is_lacking_fails_and_is_named() -> None:
    needed = [
        Acl("cleaner", "read", "topic", "lake.commands"),
        Acl("cleaner", "write", "topic", "lake.outcomes"),
        Acl("cleaner", "read", "group", "lake.cleaner"),
    ]
    reads = frozenset({"read", "describe"})
    allowed = {("topic", "lake.commands"): reads, ("topic", "lake.outcomes"): reads}

    found = rights_held("cleaner", needed, allowed)
    assert (found.state, found.seen) == (
        State.FAIL,
        "this principal may not write topic lake.outcomes",
    )
    found = rights_held("cleaner", [needed[0], needed[2]], allowed)
    assert (found.state, found.seen) == (
        State.OK,
        "this principal may do all that the broker tells of; unknown: group",
    )
    assert rights_held("cleaner", needed, {}).state is State.SKIPPED


@pytest.mark.parametrize("seconds", [-5, 0, 5])
def test_clocks_a_little_apart_are_well(seconds: int) -> None:
    assert apart(NOON, NOON + timedelta(seconds=seconds)).state is State.OK


@pytest.mark.parametrize(("seconds", "told"), [(-6, "-6.0 s"), (3600, "+3600.0 s")])
def test_clocks_far_apart_are_a_warning_only(seconds: int, told: str) -> None:
    found = apart(NOON, NOON + timedelta(seconds=seconds))

    assert found.state is State.WARN
    assert told in found.seen


def test_the_client_puts_known_keys_where_kafkas_java_client_does() -> None:
    found = partitioner_agrees()

    assert (found.state, found.seen) == (
        State.OK,
        "murmur2_random puts 8 known keys where Kafka's Java client does",
    )


@pytest.mark.parametrize("partitioner", ["consistent_random", "fnv1a_random", "random"])
def test_settings_with_another_partitioner_fail(partitioner: str) -> None:
    found = partitioner_agrees(partitioner)

    assert (found.state, found.advice) == (
        State.FAIL,
        "take partitioner out of [kafka]: JVM writers need murmur2_random",
    )


def test_a_root_that_is_there_is_well_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    root = str(tmp_path)

    looked = root_usable(root, [root], {}, probe=None)
    written = root_usable(root, [root], {}, probe=PROBE)

    assert (looked.state, looked.seen) == (
        State.OK,
        "1 entries; run with --write to try writing",
    )
    assert (written.state, written.seen) == (State.OK, "1 entries; a file was made and removed")
    assert [each.name for each in tmp_path.iterdir()] == ["orders"]


def test_a_root_that_is_not_there_fails_and_is_not_made(tmp_path: Path) -> None:
    root = tmp_path / "lake"

    found = root_usable(str(root), [str(root)], {}, probe=PROBE)

    assert (found.state, found.seen) == (State.FAIL, "there is no such directory")
    assert not root.exists()


def test_a_file_is_no_root(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.touch()

    assert root_usable(str(root), [str(root)], {}, probe=PROBE).state is State.FAIL


def test_a_root_where_nothing_can_be_made_fails_when_it_is_tried(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    root = str(tmp_path)

    # no user may make a file under the name of a directory
    found = root_usable(root, [root], {}, probe="there")

    assert (found.state, found.advice) == (State.FAIL, "let this user write and remove there")


def test_a_root_in_another_root_is_a_warning_also_by_a_link(tmp_path: Path) -> None:
    inner = tmp_path / "lake" / "sales"
    inner.mkdir(parents=True)
    link = tmp_path / "sales"
    link.symlink_to(inner)
    roots = [str(tmp_path / "lake"), str(inner), str(link)]

    states = [root_usable(root, roots, {}, probe=None).state for root in roots]

    assert states == [State.OK, State.WARN, State.WARN]


def test_spark_with_a_java_that_does_not_fit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    found = spark_ready(SparkSettings(), start=False)

    assert found.state is State.FAIL
    assert f"JAVA_HOME ({java}) is Java 8" in found.seen


def test_spark_with_a_java_that_fits_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)

    found = spark_ready(SparkSettings(), start=False)

    assert (found.state, found.advice) == (State.OK, "")
    assert "pyspark 3." in found.seen


def test_without_a_registry_there_is_none_to_check() -> None:
    found = registry_ready(Settings())

    assert (found.state, found.seen) == (
        State.OK,
        "not configured: events are Avro single objects",
    )


def test_schemas_that_nobody_registers_fail() -> None:
    registry = RegistrySettings(url="mock://doctor", auto_register=False)

    found = registry_ready(Settings(registry=registry))

    assert found.state is State.FAIL
    assert found.seen.startswith("it lacks tidegate.commits-")


def test_schemas_that_the_first_use_registers_are_well() -> None:
    registry = RegistrySettings(url="mock://doctor")

    assert registry_ready(Settings(registry=registry)).state is State.OK
    assert schemas_held(3, [], registers=False).seen == "it holds all 3 schemas"


def test_a_registry_that_does_not_answer_fails() -> None:
    settings = Settings(registry=RegistrySettings(url=f"http://{CLOSED}"))

    found = Check("registry", lambda: registry_ready(settings)).run()

    assert found.state is State.FAIL
    assert f"schema registry http://{CLOSED}" in found.seen


@pytest.mark.parametrize(
    ("kafka", "told"),
    [
        pytest.param({"bootstrap.servers": CLOSED}, "Connection refused", id="none answers"),
        pytest.param({}, "name a broker", id="none is named"),
        pytest.param({"bootstrap.servers": "b", "acsk": 1}, "acsk", id="a setting that is none"),
    ],
)
def test_without_a_broker_that_alone_fails_and_the_rest_is_looked_at(
    tmp_path: Path, kafka: dict[str, str | int], told: str
) -> None:
    settings = Settings.model_validate({"kafka": kafka, "warehouse": {"roots": [str(tmp_path)]}})

    found = list(examine(settings, list(SERVICES), Extras()))

    assert [each.check for each in found if each.state is State.FAIL] == ["broker"]
    assert told in found[0].seen
    skipped = [each for each in found if each.state is State.SKIPPED]
    assert {each.seen for each in skipped} == {"no broker"}
    assert [each.check for each in skipped] == [
        "topics",
        "co-partitioning",
        "offset retention",
        *(f"offsets {name}" for name in SERVICES),
        *(f"memory {name}" for name in DECIDERS),
        *(f"access {name}" for name in SERVICES),
        "clock",
    ]
    made = [each.check for each in found if each.state is State.OK]
    assert made == ["partitioner", "versions", "registry", "spark", f"root {tmp_path}"]


def test_a_deployment_without_a_root_fails() -> None:
    found = list(examine(Settings(), [], Extras()))

    assert (found[-1].check, found[-1].state) == ("roots", State.FAIL)
