"""What ops meet on a real broker: one table of many, topics made again, unreadable records."""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka.admin import AdminClient

from support.hudi_tables import at
from support.replays import Place, checks, commits_checked, publish_commits
from support.waiting import wait_for
from tidegate.cli import main
from tidegate.errors import OffsetGapError
from tidegate.ops.groups import Groups
from tidegate.publisher import ConfirmedProducer, Message
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import assemble

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
EVERYTHING = '[[savepoints]]\ntables = "*"\nwhen = "every_commit"\nlifetime = "forever"\n'
SERVICE = "coordinator"
COMMITS = ("--topic", "commits")
# with two partitions `customers` and `orders` lie on 1, `parts` on 0
CUSTOMERS, PARTS = ("-t", "lake.shop.customers"), ("-t", "lake.shop.parts")


def work_off(place: Place, rules: str) -> None:
    with place.running(SERVICE, rules=rules):
        place.end_tasks()


def test_the_partition_of_one_table_is_replayed(place: Place) -> None:
    publish_commits(place, [1, 2], "customers", "orders", "parts")
    work_off(place, rules="")
    place.settings(EVERYTHING)

    shown = place.call("group", SERVICE, "--to-earliest", *CUSTOMERS)
    assert shown["changes"] == [
        {
            "group": f"{place.prefix}.{SERVICE}",
            "topic": f"{place.prefix}.commits",
            "partition": 1,
            "from_offset": 4,
            "to_offset": 0,
            "again": 4,
        }
    ]

    place.call("group", SERVICE, "--to-earliest", *CUSTOMERS, "--execute")
    assert place.call("group", SERVICE, "--to-earliest", *CUSTOMERS)["changes"] == []
    work_off(place, EVERYTHING)

    asked = {(table, at(minute)) for table in ("customers", "orders") for minute in (1, 2)}
    assert set(commits_checked(place)) == asked


def test_every_way_of_saying_where_to_begin_goes_with_tables(place: Place) -> None:
    publish_commits(place, [1], "customers", "orders", "parts")
    time.sleep(0.05)
    later = datetime.now(UTC)
    time.sleep(0.05)
    publish_commits(place, [2], "customers", "orders")
    work_off(place, EVERYTHING)

    def shown(*where: str) -> list[tuple[int, int]]:
        changes = place.call("group", SERVICE, *COMMITS, *where, *CUSTOMERS, *PARTS)["changes"]
        return [(change["partition"], change["again"]) for change in changes]

    assert shown("--to-earliest") == [(0, 1), (1, 4)]
    assert shown("--since", "900000d") == [(0, 1), (1, 4)]
    assert shown("--since", "1969-12-31T23:59:59.999Z") == [(0, 1), (1, 4)]
    assert shown("--since", later.isoformat()) == [(1, 2)]
    assert shown("--to-offset", "2") == [(1, 2)]


def test_of_an_executor_s_commands_those_of_other_tables_come_along(place: Place) -> None:
    publish_commits(place, [1], "customers", "orders", "parts")
    work_off(place, EVERYTHING)
    with place.running("savepoint-writer"):
        place.wait_until_idle("savepoint-writer")
    outcomes = place.outcome_ids()
    assert len(outcomes) == 3

    place.call("group", "savepoint-writer", "--to-earliest", *CUSTOMERS, "--execute")
    with place.running("savepoint-writer"):
        place.wait_until_idle("savepoint-writer")

    assert place.outcome_ids() == outcomes


def starts(place: Place) -> None:
    """Run the decider until it has its partitions, or refuses them."""
    settings = place.settings(EVERYTHING)
    bus = KafkaBus(settings.connection(), {"session.timeout.ms": 6000})
    loop = assemble(SERVICE, settings, bus)
    stop = threading.Event()
    threading.Timer(3, stop.set).start()
    try:
        loop.run(stop)
    finally:
        loop.close()
        bus.close()


def create_again(place: Place, topic: str) -> None:
    settings = place.settings(EVERYTHING)
    admin = AdminClient({**settings.connection()})
    [gone] = admin.delete_topics([topic]).values()
    gone.result(60)
    wait_for("the end of the topic", lambda: topic not in admin.list_topics(timeout=60).topics)
    place.create_topics()


def test_a_decider_goes_on_after_its_topic_was_deleted_and_created_again(place: Place) -> None:
    publish_commits(place, [1, 2, 3], "customers", "orders")
    publish_commits(place, [1], "parts")
    work_off(place, EVERYTHING)
    before = commits_checked(place)
    create_again(place, f"{place.prefix}.commits")
    publish_commits(place, [3, 4], "customers", "orders")
    with pytest.raises(OffsetGapError, match="deleted and created again"):
        starts(place)

    shown = place.call("group", SERVICE, *COMMITS, "--to-earliest")
    assert [(row["partition"], row["to_offset"]) for row in shown["changes"]] == [(0, 0), (1, 0)]
    assert {row["repairs"] for row in shown["changes"]} == {"the topic was recreated"}
    with pytest.raises(OffsetGapError, match="deleted and created again"):
        starts(place)  # it was a dry run

    shown = place.call("group", SERVICE, *COMMITS, "--to-earliest", *CUSTOMERS, "--execute")
    assert [row["partition"] for row in shown["changes"]] == [1]
    place.call("group", SERVICE, *COMMITS, "--to-earliest", "--execute")
    work_off(place, EVERYTHING)

    # the memory went back for both tables, and numbers their checks on from those before
    again = [(table, at(minute)) for minute in (3, 4) for table in ("customers", "orders")]
    assert commits_checked(place) == [*before, *again]
    attempts = [check.attempt for check in checks(place) if check.table == "lake.shop.customers"]
    assert attempts == [0, 2, 3, 4]  # of two that waited for the first, the newer was issued
    changes = place.call("group", SERVICE, *COMMITS, "--to-earliest")["changes"]
    assert changes[0]["again"] == 4


def test_a_group_that_was_put_back_by_another_tool_is_followed_by_the_memory(place: Place) -> None:
    publish_commits(place, [1, 2])
    work_off(place, rules="")
    connection = place.settings().connection()
    groups = Groups(connection)
    groups.set_offsets(f"{place.prefix}.{SERVICE}", {Partition(f"{place.prefix}.commits", 1): 0})
    assert place.unread(SERVICE) == 2

    [reset] = place.call("group", SERVICE, "--to-earliest", "--execute")["changes"]
    work_off(place, EVERYTHING)

    assert (reset["from_offset"], reset["to_offset"], reset["again"]) == (0, 0, 2)
    assert commits_checked(place) == [("customers", at(1)), ("customers", at(2))]


def test_records_that_can_t_be_read_are_reported_and_not_published_again(place: Place) -> None:
    publish_commits(place, [1], "customers", "parts")
    topic = f"{place.prefix}.commits"
    poison = [
        Message(topic, b"lake.shop.customers", b"no avro", (), 1),
        Message(topic, b"lake.shop.orders", b"{}", (), 1),
        Message(topic, None, None, (), 1),
    ]
    producer = ConfirmedProducer(place.settings().connection())
    producer.send(poison)
    producer.close()

    shown = place.call("events", "--topic", "commits", *CUSTOMERS, "--execute")

    assert [row["table"] for row in shown["changes"]] == ["lake.shop.customers"]
    assert [(row["from"], row["key"]) for row in shown["unreadable"]] == [
        (f"{topic}/1/1", "lake.shop.customers")
    ]
    assert all(row["reason"] for row in shown["unreadable"])
    values = [record.value for record in place.audience.records("commits")]
    assert (len(values), values.count(b"no avro"), values.count(None)) == (6, 1, 1)
    everything = place.call("events", "--topic", "commits", "--from-offset", "0")
    assert (len(everything["changes"]), len(everything["unreadable"])) == (2, 3)


def test_a_call_that_can_t_be_meant_is_refused_in_one_line(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_commits(place, [1], "customers")
    work_off(place, EVERYTHING)

    def said(*arguments: str) -> tuple[int | str | None, str]:
        file = str(place.folder / "tidegate.toml")
        monkeypatch.setattr(sys, "argv", ["tidegate", "replay", *arguments, "-c", file])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return end.value.code, (shown.out + shown.err).replace(place.prefix, "P").splitlines()[-1]

    group, events = ("group", SERVICE, *COMMITS, "--to-earliest"), ("events", "--topic", "commits")
    assert said(*group, "-t", "lake.shop.typo") == (
        2,
        (
            "tidegate: no event names the table lake.shop.typo; did you mean lake.shop.customers?"
            " (check the name)"
        ),
    )
    assert said(*group, "-t", "typo") == (
        2,
        "tidegate: 'typo' is not a table name of the form catalog.database.table",
    )
    assert said(*group, *CUSTOMERS, "--partition", "0") == (
        2,
        "tidegate: none of the tables is on partition 0",
    )
    none = "tidegate: P.commits has no partition 9"
    assert said(*group, "--partition", "9") == (2, none)
    assert said("group", SERVICE, "--to-earliest", "--topic", "dead-letters") == (
        2,
        (
            "tidegate: coordinator does not consume dead-letters, only commits, locks, outcomes,"
            " requests, vacuums"
        ),
    )
    assert said("group", SERVICE, "--to-earliest", "--topic", f"{place.prefix}.commits") == (
        0,
        "1 record would be read again in 1 partition; add --execute to do it",
    )
    assert said("group", "cleaner", "--to-earliest") == (
        0,
        "nothing to change: group P.cleaner has not started, it reads from the beginning",
    )
    assert said("group", SERVICE, "--to-offset", "99") == (
        0,
        "nothing to change: group P.coordinator is already at or before that offset",
    )
    assert said("group", SERVICE, "--since", "900000d")[0] == 0
    assert said("group", SERVICE, "--since", "2999-01-01T00:00:00Z") == (
        2,
        "tidegate: 2999-01-01T00:00:00Z is in the future: a replay starts from a time in the past",
    )
    assert said(*events, "-t", "lake.shop.typo") == (
        1,
        "tidegate: no event in commits matches and can be decoded",
    )
    assert said(*events, "-t", "typo")[0] == said(*events, "-t", "")[0] == 2
    assert said(*events, "--partition", "9") == (2, "tidegate: P.commits has no partition 9")
    assert said(*events, "--since", "2999-01-01T00:00:00Z")[0] == 1
    assert said("events", "--topic", "nowhere", "--from-offset", "0")[0] == 2
