"""The doctor's checks, each seen well and each seen ill; no broker is needed for these."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from support.s3 import S3Server
from tidegate.coordinator.rows.position import Position
from tidegate.coordinator.rows.store import Store
from tidegate.errors import FormatError, StopService, TransientError
from tidegate.events import SavepointsChecked
from tidegate.events.topics import partition_of
from tidegate.ops.acls import Acl
from tidegate.ops.doctor import Finding, broker, examine
from tidegate.ops.doctor.broker import (
    compare_offsets,
    compare_placement,
    compare_retention,
    compare_rights,
    compare_state,
    read_state,
)
from tidegate.ops.doctor.finding import checked
from tidegate.ops.doctor.local import (
    PROBE,
    check_client_settings,
    check_registry,
    check_root,
    check_spark,
    compare_schemas,
)
from tidegate.ops.doctor.outcomes import compare_clocks, compare_owners
from tidegate.registry import RegistrySettings
from tidegate.runtime.bus import Partition, Record, Watermarks
from tidegate.service.assembly import SERVICES
from tidegate.service.settings import Settings

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PLACED = ("commits", "vacuums", "locks", "requests", "tasks")
LOCKS = Partition("lake.locks", 3)
CLOSED = "127.0.0.1:9"
T = TypeVar("T")


def test_a_check_that_hangs_has_failed_and_lets_the_others_go_on() -> None:
    never = threading.Event()

    def hang() -> Finding:
        never.wait()
        return Finding("ok", "")

    found = checked("root", hang, seconds=0.1)
    never.set()

    assert (found.check, found.state, found.seen) == ("root", "fail", "no result after 0.1 s")


def test_a_check_that_raises_has_failed_with_what_it_said() -> None:
    def broken() -> Finding:
        raise FormatError("the store's answer is not JSON")

    found = checked("root", broken)

    assert (found.check, found.state) == ("root", "fail")
    assert found.seen == "FormatError: the store's answer is not JSON"


def test_a_fault_of_kafka_that_passes_soon_is_not_reported() -> None:
    faults = [KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)), TransientError("no leader")]

    def settle() -> Finding:
        if faults:
            raise faults.pop()
        return Finding("ok", "")

    assert checked("offsets", settle).state == "ok"


@pytest.mark.parametrize(("at", "behind"), [(5, "4 records"), (8, "1 record"), (9, "0 records")])
def test_an_offset_within_its_topic_is_well(at: int, behind: str) -> None:
    found = compare_offsets("coordinator", "lake", {LOCKS: at}, {LOCKS: range(5, 9)})

    assert (found.state, found.seen) == ("ok", f"in range, {behind} behind")


@pytest.mark.parametrize("at", [4, 10])
def test_an_offset_out_of_its_topic_fails_and_the_reset_is_named(at: int) -> None:
    found = compare_offsets("coordinator", "lake", {LOCKS: at}, {LOCKS: range(5, 9)})

    assert found == Finding(
        "fail",
        f"committed offset {at} of lake.locks[3], which holds 5 to 9",
        "events were lost; stop it, then run: tidegate replay group coordinator"
        " --topic locks --partition 3 --to-earliest --execute",
    )


def test_an_offset_of_a_partition_that_is_gone_fails() -> None:
    found = compare_offsets("coordinator", "lake", {LOCKS: 0}, {})

    assert (found.state, found.seen) == (
        "fail",
        "committed offset 0 of lake.locks[3], which no longer exists",
    )


def test_a_service_that_has_not_begun_is_well() -> None:
    assert compare_offsets("coordinator", "lake", {}, {LOCKS: range(5, 9)}).state == "ok"


DAY = 86_400_000


@pytest.mark.parametrize("minutes", [43_200, 43_201])
def test_offsets_that_outlive_the_tasks_are_well(minutes: int) -> None:
    assert compare_retention(minutes, {"lake.tasks": 30 * DAY}).state == "ok"


@pytest.mark.parametrize(
    ("minutes", "kept", "shown", "needed"),
    [
        pytest.param(
            10_080,
            30 * DAY,
            "offsets expire after 7 days, but lake.tasks keeps tasks for 30 days",
            43_200,
            id="Kafka's default",
        ),
        pytest.param(43_199, 30 * DAY, "tasks for 30 days", 43_200, id="a minute"),
        pytest.param(43_200, 30 * DAY + 1, "lake.tasks keeps", 43_201, id="a millisecond"),
        pytest.param(43_200, -1, "lake.tasks keeps tasks for ever", 2**31 - 1, id="for ever"),
    ],
)
def test_offsets_that_are_forgotten_before_the_tasks_are_a_warning(
    minutes: int, kept: int, shown: str, needed: int
) -> None:
    found = compare_retention(minutes, {"lake.other": DAY, "lake.tasks": kept})

    assert (found.state, found.advice) == (
        "warn",
        f"set offsets.retention.minutes={needed} on the brokers",
    )
    assert shown in found.seen


def test_retention_without_a_topic_is_not_judged() -> None:
    assert compare_retention(10_080, {}).state == "skipped"


LOCKS_NOW = Watermarks("today", 0, 10)
LOCKS_0 = Partition("lake.locks", 0)


def remembered(
    *rows: tuple[bytes, bytes], watermarks: Watermarks = LOCKS_NOW, count: int = 1
) -> Finding:
    where = Partition("lake.coordinator.changelog", 0)
    records = [Record(where, at, key, value, (), 0) for at, (key, value) in enumerate(rows)]
    return compare_state(*read_state(records), {LOCKS_0: watermarks}, {LOCKS_0: 4}, count)


POSITION = Position({"lake.locks": 4}, {"lake.locks": "today"}).record()
ORDERS = (b"lake.sales.orders\x00done\x007", b'[1,"v"]')


def test_a_state_that_fits_its_topics_is_well() -> None:
    found = remembered(ORDERS, POSITION)

    assert found == Finding("ok", "1 table can be restored")


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        pytest.param(
            remembered(POSITION, watermarks=Watermarks("tomorrow", 0, 10)),
            "lake.locks was deleted and created again",
            id="another topic of that name",
        ),
        pytest.param(remembered(), "was written only up to 0", id="a state that was lost"),
        pytest.param(
            remembered(POSITION, watermarks=Watermarks("today", 5, 10)),
            "it holds 5 to 10: events would be skipped",
            id="events that are gone",
        ),
    ],
)
def test_a_state_that_does_not_fit_its_topics_fails(found: Finding, shown: str) -> None:
    assert (found.state, found.advice) == (
        "fail",
        "stop the coordinator, then run: tidegate replay group coordinator --to-earliest --execute",
    )
    assert shown in found.seen


@pytest.mark.parametrize("key", [POSITION[0], ORDERS[0]])
def test_a_state_that_cannot_be_read_is_seen(key: bytes) -> None:
    with pytest.raises((FormatError, StopService), match="can't be read"):
        remembered((key, b"[half"), (POSITION[0], b"{}"))


def test_of_a_large_state_only_so_many_rows_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six partitions of 80 MB took half a gigabyte."""
    held: list[int] = []

    class Watched(Store):
        def close(self) -> None:
            held.append(len(self.tables()))
            super().close()

    monkeypatch.setattr(broker, "Store", Watched)
    rows = ((f"lake.db.t{number}\x00done\x007".encode(), b'[1,"v"]') for number in range(2_500))

    found = remembered(*rows, POSITION)

    assert found.seen == "2500 tables can be restored"
    assert held == [1_000, 1_000, 500]


def test_a_state_that_was_made_for_fewer_partitions_fails_and_says_how_to_move_it() -> None:
    found = remembered(Position(partitions=2).record(), count=6)

    assert (found.state, "the state was made for 2" in found.seen) == ("fail", True)
    assert "More partitions" in found.advice


def test_a_missing_right_fails_and_is_named() -> None:
    needed = [
        Acl("cleaner", "read", "topic", "lake.tasks"),
        Acl("cleaner", "write", "topic", "lake.outcomes"),
        Acl("cleaner", "read", "group", "lake.cleaner"),
    ]
    reads = frozenset({"read", "describe"})
    allowed = {("topic", "lake.tasks"): reads, ("topic", "lake.outcomes"): reads}

    found = compare_rights(needed, allowed)
    assert (found.state, found.seen) == ("fail", "this principal may not write topic lake.outcomes")
    found = compare_rights([needed[0], needed[2]], allowed)
    assert (found.state, found.seen) == (
        "ok",
        "this principal has all rights that the broker reports; unknown: group",
    )
    assert compare_rights(needed, {}).state == "skipped"


def outcomes(source: str, *seconds: float, time: str | None = None) -> list[Record]:
    """Outcomes that were appended so many seconds after their writer's clock."""
    written = (time or NOON.isoformat()).encode()
    headers = (("ce_time", written), ("ce_source", source.encode()))
    at = NOON.timestamp()
    return [
        Record(Partition("t", 0), 0, b"", b"", headers, round(1000 * (at + late)))
        for late in seconds
    ]


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param((-5,), id="a little ahead"),
        pytest.param((0,), id="right"),
        pytest.param((5,), id="a little behind"),
        pytest.param((2, 33.9), id="the newest waited for the broker"),
        pytest.param((3600, 3600, 0), id="a clock that was wrong before"),
    ],
)
def test_clocks_a_little_apart_are_well(seconds: Sequence[float]) -> None:
    assert compare_clocks(outcomes("restorer", *seconds)).state == "ok"


@pytest.mark.parametrize(
    ("seconds", "shown"), [((-6, -600), "-6.0 s"), ((7200, 3600, 4000), "+3600.0 s")]
)
def test_clocks_far_apart_are_a_warning_only(seconds: Sequence[float], shown: str) -> None:
    right = outcomes("cleaner", 0)
    found = compare_clocks([*right, *outcomes("restorer", *seconds)])

    assert found.state == "warn"
    assert (
        found.seen == f"the newest outcomes were appended {shown} after the clock of the restorer"
    )


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param(outcomes("restorer", 34), id="it may have waited"),
        pytest.param(outcomes("stranger", 600, 600, 600), id="not a service's"),
        pytest.param(outcomes("restorer", 0, time="yesterday"), id="not a time"),
        pytest.param([Record(Partition("t", 0), 0, b"", b"", (("ce_time", None),), 0)], id="none"),
    ],
)
def test_without_enough_outcomes_the_clocks_are_unknown(strange: list[Record]) -> None:
    assert compare_clocks(strange).state == "skipped"
    assert compare_clocks([*strange, *outcomes("cleaner", 0)]).state == "ok"


def test_a_root_that_is_there_is_well_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    root = str(tmp_path)

    looked = check_root(root, [root], {}, probe=None)
    written = check_root(root, [root], {}, probe=PROBE)

    assert (looked.state, looked.seen) == ("ok", "1 entry; use --write to test writing")
    assert (written.state, written.seen) == ("ok", "1 entry; a file was created and removed")
    assert [path.name for path in tmp_path.iterdir()] == ["orders"]


def test_a_root_that_is_not_there_fails_and_is_not_made(tmp_path: Path) -> None:
    root = tmp_path / "lake"

    found = check_root(str(root), [str(root)], {}, probe=PROBE)

    assert (found.state, found.seen) == ("fail", "this directory does not exist")
    assert not root.exists()


def test_a_root_in_a_bucket_without_objects_is_well(s3: S3Server) -> None:
    for root in ("s3://lake", "s3://lake/wh"):
        found = check_root(root, [root], s3.settings("lake"), probe=PROBE)
        assert (found.state, found.seen[:12]) == ("ok", "0 entries; a")


def test_a_file_is_not_a_root(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.touch()

    assert check_root(str(root), [str(root)], {}, probe=PROBE).state == "fail"


def test_a_root_where_nothing_can_be_made_fails_when_it_is_tried(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    root = str(tmp_path)

    # no user may make a file under the name of a directory
    found = check_root(root, [root], {}, probe="there")

    assert (found.state, found.advice) == (
        "fail",
        "grant this user the right to write and remove there",
    )


def test_a_root_in_another_root_is_a_warning_also_by_a_link(tmp_path: Path) -> None:
    inner = tmp_path / "lake" / "sales"
    inner.mkdir(parents=True)
    link = tmp_path / "sales"
    link.symlink_to(inner)
    roots = [str(tmp_path / "lake"), str(inner), str(link)]

    states = [check_root(root, roots, {}, probe=None).state for root in roots]

    assert states == ["ok", "warn", "warn"]


def test_spark_with_a_java_that_does_not_fit_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    found = check_spark(Settings(), start=False)

    assert found.state == "fail"
    assert f"JAVA_HOME ({java}) is Java 8" in found.seen


def test_spark_with_a_java_that_fits_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)

    found = check_spark(Settings(), start=False)

    assert (found.state, found.advice) == ("ok", "")
    assert "pyspark 3." in found.seen


def test_without_a_registry_there_is_none_to_check() -> None:
    found = check_registry(Settings())

    assert (found.state, found.seen) == ("ok", "not configured: events are Avro single objects")


def test_unregistered_schemas_fail() -> None:
    registry = RegistrySettings(url="mock://doctor", auto_register=False)

    found = check_registry(Settings(registry=registry))

    assert found.state == "fail"
    assert found.seen.startswith("missing: tidegate.commits-")


def test_schemas_that_the_first_use_registers_are_well() -> None:
    registry = RegistrySettings(url="mock://doctor")

    assert check_registry(Settings(registry=registry)).state == "ok"
    assert compare_schemas(3, [], registers=False).seen == "it has all 3 schemas"


def test_a_registry_that_does_not_answer_fails() -> None:
    settings = Settings(registry=RegistrySettings(url=f"http://{CLOSED}"))

    found = checked("registry", lambda: check_registry(settings))

    assert found.state == "fail"
    assert f"schema registry http://{CLOSED}" in found.seen


@pytest.mark.parametrize(
    ("kafka", "shown"),
    [
        pytest.param({"bootstrap.servers": CLOSED}, "Connection refused", id="none answers"),
        pytest.param({}, "no broker is configured", id="none is named"),
        pytest.param({"bootstrap.servers": "b", "acsk": 1}, "acsk", id="not a valid setting"),
    ],
)
def test_without_a_broker_that_alone_fails_and_the_rest_is_looked_at(
    tmp_path: Path, kafka: dict[str, str | int], shown: str
) -> None:
    settings = Settings.model_validate({"kafka": kafka, "warehouse": {"roots": [str(tmp_path)]}})

    found = list(examine(settings, list(SERVICES)))

    assert [finding.check for finding in found if finding.state == "fail"] == ["broker"]
    assert shown in found[0].seen
    skipped = [finding for finding in found if finding.state == "skipped"]
    assert {finding.seen for finding in skipped} == {"no broker"}
    assert [finding.check for finding in skipped] == [
        "topics",
        "offset retention",
        *(f"running {name}" for name in SERVICES),
        *(f"offsets {name}" for name in SERVICES),
        "state",
        *(f"placement {name}" for name in PLACED),
        *(f"access {name}" for name in SERVICES),
        "clock",
        "savepoints",
    ]
    made = [finding.check for finding in found if finding.state == "ok"]
    assert made == ["client settings", "rules", "versions", "registry", "spark", f"root {tmp_path}"]


def test_a_deployment_without_a_root_fails() -> None:
    found = list(examine(Settings(), []))

    assert (found[-1].check, found[-1].state) == ("roots", "fail")


def placed(table: str, number: int) -> Record:
    return Record(Partition("lake.locks", number), 5, table.encode(), b"", (), 0)


def test_events_on_the_partitions_of_their_tables_are_well() -> None:
    records = [placed(table, partition_of(table, 6)) for table in ("lake.a.b", "lake.c.d")]
    unkeyed = Record(Partition("lake.locks", 0), 6, None, b"", (), 0)

    found = compare_placement([*records, unkeyed], 6)

    assert found.state == "ok"
    assert found.seen == "the newest 2 events are on their partitions"


def test_an_event_of_a_writer_with_another_partitioner_fails() -> None:
    home = partition_of("lake.a.b", 6)
    elsewhere = (home + 1) % 6

    found = compare_placement([placed("lake.a.b", elsewhere), placed("lake.a.b", home)], 6)

    assert found.state == "fail"
    assert found.seen == (
        "1 of the newest 2 events are on another partition: lake.a.b belongs on partition"
        f" {home}, but is at {elsewhere}/5"
    )


def last_check(table: str, *unowned: str) -> SavepointsChecked:
    fields: dict[str, object] = {
        "table": table,
        "location": "/lake/t",
        "source": "w",
        "caused_by": "c",
    }
    fields |= {"occurred_at": NOON, "savepoints": 3, "duration_ms": 1, "unowned": unowned}
    return SavepointsChecked.model_validate(fields)


def test_savepoints_that_no_rule_owns_are_a_warning_by_the_last_check_of_each_table() -> None:
    before = [
        last_check("lake.sales.orders", "1", "2", "3"),
        last_check("lake.sales.customers", "1"),
    ]
    after = [last_check("lake.sales.orders", "2", "3"), last_check("lake.sales.customers")]

    found = compare_owners([*before, *after])

    assert found.state == "warn"
    assert found.seen == "no rule owns savepoints, so they stay: 2 of lake.sales.orders"
    assert "adopts" in found.advice
    assert compare_owners(after[1:]).state == "ok"


def test_a_client_setting_that_breaks_a_guarantee_fails_with_its_reason() -> None:
    kafka: dict[str, str | bool] = {"bootstrap.servers": CLOSED, "enable.auto.commit": True}

    found = check_client_settings(Settings.model_validate({"kafka": kafka}))

    assert found.state == "fail"
    assert "enable.auto.commit = True must be false: offsets are committed only when" in found.seen
    kafka["enable.auto.commit"] = False
    assert check_client_settings(Settings.model_validate({"kafka": kafka})).state == "ok"


@pytest.mark.parametrize(
    ("root", "seen"),
    [
        ("webhdfs://lake/tables", "changes no table"),
        ("hdfs://127.0.0.1:1/tables", "hdfs://127.0.0.1:1/tables: OSError: Connection refused"),
    ],
)
def test_a_root_where_no_table_can_be_changed_fails(root: str, seen: str) -> None:
    settings = Settings.model_validate({"warehouse": {"roots": [root]}})

    checks = {check.check: check for check in examine(settings, [])}

    found = checks[f"root {root}"]
    assert (found.state, seen in found.seen) == ("fail", True), found


def test_a_bucket_is_reported_with_how_it_removes(s3: S3Server) -> None:
    warehouse = {"roots": ["s3://lake/wh", "s3a://gone/wh"], "stores": s3.settings("lake", "gone")}
    settings = Settings.model_validate({"warehouse": warehouse})
    s3.put("wh/t/f")

    checks = {check.check: check for check in examine(settings, [], write=True)}

    there, gone = checks["root s3://lake/wh"], checks["root s3a://gone/wh"]
    assert (there.state, "ignores ETags in bulk" in there.seen) == ("ok", True)
    assert (gone.state, "NoSuchBucket" in gone.seen) == ("fail", True)
    assert s3.all_keys() == ["wh/t/f"]
