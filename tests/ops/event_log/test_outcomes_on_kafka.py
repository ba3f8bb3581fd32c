"""`tidegate outcomes` on a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from support.deployment_events import (
    ORDERS,
    cleaned_in_parts,
    completed,
    publish,
    rejected,
    released,
    restore_request,
    savepoint_created,
    started,
    vacuum,
)
from support.samples import NOON
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.errors import ConfigError
from tidegate.events.topics import OUTCOME_TOPIC, partition_of
from tidegate.ops import event_log
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.topics import create_topics
from tidegate.publisher import ConfirmedProducer, Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka import records
from tidegate.runtime.kafka.records import BATCH, Config, read_in_order
from tidegate.service.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import Message as Received

pytestmark = pytest.mark.kafka
CUSTOMERS = "lake.sales.customers"


@dataclass(frozen=True)
class Place:
    servers: str
    prefix: str
    file: Path

    @property
    def settings(self) -> Settings:
        return Settings.load(self.file)

    def call(self, *arguments: str) -> str:
        answer = CliRunner().invoke(app, ["outcomes", *arguments, "-c", str(self.file)])
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        assert answer.exit_code == 0, answer.output
        # a busy broker's fault that passed is logged to stderr
        return answer.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.call(*arguments, "--json").splitlines()]

    def kinds(self, *arguments: str) -> list[str]:
        return [row["kind"] for row in self.rows(*arguments)]


@pytest.fixture(scope="module")
def place(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A deployment whose outcomes were published in one order on several partitions."""
    prefix = f"outcomes-{tmp_path_factory.getbasetemp().name}-{NOON:%H}".lower()
    folder = tmp_path_factory.mktemp("outcomes")
    file = folder / "tidegate.toml"
    file.write_text(
        f'[kafka]\n"bootstrap.servers" = "{bootstrap_servers}"\n'
        f'[topics]\nprefix = "{prefix}"\npartitions = 3\n'
    )
    settings = Settings.load(file)
    create_topics(settings.connection(), settings.topics)
    place = Place(bootstrap_servers, prefix, file)
    one, two = restore_request("restore-1"), restore_request("restore-2", CUSTOMERS)
    publish(
        bootstrap_servers,
        prefix,
        started(one),
        rejected(two),
        completed(one),
        savepoint_created(7, CUSTOMERS),
    )
    return place


def test_outcomes_of_all_partitions_come_in_the_order_in_which_they_happened(place: Place) -> None:
    assert place.kinds() == [
        "RestoreStarted",
        "RestoreRejected",
        "RestoreCompleted",
        "SavepointCreated",
    ]


def test_a_row_says_who_asked_and_why_and_has_the_whole_event(place: Place) -> None:
    [row] = place.rows("--kind", "restorecompleted")

    assert (row["table"], row["requested_by"], row["why"]) == (ORDERS, "ana", "a bad load")
    assert (row["duration_ms"], row["caused_by"]) == (1500, "restore-1")
    assert row["event"]["files_deleted"] == 3
    [row] = place.rows("--kind", "RestoreRejected")
    assert (row["reason"], row["message"]) == ("writer-alive", "a writer is at work")


def test_outcomes_are_selected_by_table_pattern_kind_cause_and_number(place: Place) -> None:
    assert place.kinds("-t", CUSTOMERS) == ["RestoreRejected", "SavepointCreated"]
    assert place.kinds("-t", "lake.*.ORD*") == ["RestoreStarted", "RestoreCompleted"]
    assert place.kinds("-t", ORDERS, "-t", CUSTOMERS, "--limit", "1") == ["SavepointCreated"]
    assert place.kinds("--limit", "2") == ["RestoreCompleted", "SavepointCreated"]
    assert place.kinds("--limit", "0") == []
    assert place.kinds("--caused-by", "restore-1") == ["RestoreStarted", "RestoreCompleted"]
    assert place.kinds("--caused-by", "restore-1", "--limit", "1") == ["RestoreCompleted"]
    assert place.kinds("--kind", "SavepointCreated", "--kind", "RestoreStarted") == [
        "RestoreStarted",
        "SavepointCreated",
    ]
    assert place.kinds("--failed") == ["RestoreRejected"]
    with pytest.raises(ConfigError, match="unknown kind Nothing; known: "):
        place.call("--kind", "Nothing")


def test_since_begins_by_the_brokers_clock(place: Place) -> None:
    rows = place.rows()
    first, last = rows[0], rows[-1]
    # a fast broker may append two within a millisecond
    latest = [row["kind"] for row in rows if row["at"] == last["at"]]

    assert place.kinds("--since", last["at"]) == latest
    assert latest[-1:] == ["SavepointCreated"]
    assert len(place.kinds("--since", first["at"])) == 4
    assert len(place.kinds("--since", "1h")) == 4
    assert place.kinds("--since", (datetime.now(UTC) + timedelta(days=1)).isoformat()) == []


def test_for_people_an_outcome_is_one_line(place: Place) -> None:
    [line] = place.call("-t", ORDERS, "--kind", "RestoreCompleted").splitlines()

    assert f"  {ORDERS}  RestoreCompleted  to 20261121041551845: 1 instant rolled back" in line
    assert line.endswith("3 files deleted; requested by ana (unsigned): a bad load; took 1.5 s")


def test_of_a_table_named_exactly_only_its_partition_is_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[set[Partition]] = []

    def noted(config: Config, spans: Mapping[Partition, range]) -> Iterator[Record]:
        read.append(set(spans))
        return read_in_order(config, spans)

    monkeypatch.setattr(event_log, "read_in_order", noted)
    place.call("-t", ORDERS)
    place.call("-t", "lake.sales.order?")

    topic = OUTCOME_TOPIC.name(place.prefix)
    assert read[0] == {Partition(topic, partition_of(ORDERS, 3))}
    assert read[1] == {Partition(topic, number) for number in range(3)}


def test_what_cannot_be_decoded_is_shown_and_stops_nothing(place: Place) -> None:
    other = "lake.sales.broken"
    producer = ConfirmedProducer({"bootstrap.servers": place.servers})
    topic = OUTCOME_TOPIC.name(place.prefix)
    producer.send([Message(topic, other.encode(), b"\x1b[2J no event")])
    producer.close()
    publish(place.servers, place.prefix, savepoint_created(1, other))

    unreadable, created = place.rows("-t", other)
    assert (unreadable["kind"], unreadable["event"]) == (None, None)
    assert unreadable["problem"]
    assert created["kind"] == "SavepointCreated"
    assert "unreadable record at" in place.call("-t", other)


def test_with_follow_what_is_published_later_is_shown(place: Place) -> None:
    table = "lake.sales.followed"
    publish(place.servers, place.prefix, savepoint_created(1, table))
    command = [sys.executable, "-u", "-m", "tidegate.cli", "outcomes", "-f", "--json"]
    command += ["-t", table, "-c", str(place.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"]["files"] == 1
        publish(place.servers, place.prefix, savepoint_created(2, table))
        assert json.loads(following.stdout.readline())["event"]["files"] == 2
        following.send_signal(signal.SIGINT)
        wait_for("the end of outcomes --follow", lambda: following.poll() is not None)


def test_memory_is_bounded_and_nothing_is_lost_where_partitions_are_long(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for five records each, every partition is paused and resumed again and again."""
    tables = [f"lake.long.t{number}" for number in range(6)]
    publish(
        place.servers,
        place.prefix,
        *(savepoint_created(number, table) for number in range(40) for table in tables),
    )
    log = EventLog.of(place.settings)
    topic = OUTCOME_TOPIC.name(place.prefix)
    spans = log.spans(OUTCOME_TOPIC, EventFilter())
    taken = 0
    convert = records.as_record

    def counted(message: Received) -> Record:
        nonlocal taken
        taken += 1
        return convert(message)

    monkeypatch.setattr(records, "as_record", counted)
    most = 0
    seen: list[tuple[Partition, int, int]] = []
    for record in read_in_order(place.settings.connection(), spans, limit=5):
        seen.append((record.partition, record.offset, record.timestamp_ms))
        most = max(most, taken - len(seen))

    assert {(p, at) for p, at, _ in seen} == {
        (Partition(topic, p.number), at) for p, span in spans.items() for at in span
    }
    assert len(seen) == len({row[:2] for row in seen})
    assert [row[2] for row in seen] == sorted(row[2] for row in seen)
    assert most < 3 * (5 + BATCH)


def test_an_outcome_in_parts_is_one_row_and_no_limit_cuts_it(place: Place) -> None:
    table = "lake.sales.returns"
    event = released(vacuum(1, table=table))
    publish(place.servers, place.prefix, *cleaned_in_parts(event, 3))

    for options in (("--limit", "1"), ("-t", table), ("--caused-by", event.event_id)):
        [row] = place.rows(*options)
        assert (row["kind"], row["event"]["part"]) == ("DirectoriesCleaned", None)
        assert len(row["event"]["directories"]) == 3
    explained = CliRunner().invoke(app, ["explain", table, "-c", str(place.file)])
    assert explained.output.count("DirectoriesCleaned") == 1
    assert "6 files" in explained.output
