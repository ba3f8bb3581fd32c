"""`tidegate waiting` and `explain` on a real broker, with a reader gate that has run."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.deployment_events import (
    ORDERS,
    cleaned,
    publish,
    released,
    restore_request,
    savepoint_created,
    started,
    vacuum,
)
from support.samples import ended, release, savepoint_request
from support.topic_monitor import TopicMonitor
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.coordinator.rows.store import Store
from tidegate.errors import ConfigError, PermanentError, TidegateError
from tidegate.events import TaskIssued
from tidegate.ops.topics import create_topics
from tidegate.ops.waiting import gate_stores, waiting_vacuums
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import assemble
from tidegate.service.settings import Settings

pytestmark = pytest.mark.kafka
CUSTOMERS = "lake.sales.customers"


@dataclass(frozen=True)
class Place:
    servers: str
    prefix: str
    file: Path

    def call(self, *arguments: str, code: int = 0) -> str:
        answer = CliRunner().invoke(app, [*arguments, "-c", str(self.file)])
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        assert answer.exit_code == code, answer.output
        return answer.output

    def rows(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        shown = self.call(*arguments, "--json", code=code)
        return [json.loads(line) for line in shown.splitlines()]


def newest_task(monitor: TopicMonitor) -> TaskIssued:
    task = monitor.commands()[-1]
    assert isinstance(task, TaskIssued)
    return task


@pytest.fixture(scope="module")
def place(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Two vacuums: one was cleaned, of the other one reader is left. A dead letter. A request."""
    prefix, folder = f"reading-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("reading")
    file = folder / "tidegate.toml"
    file.write_text(
        f'[kafka]\n"bootstrap.servers" = "{bootstrap_servers}"\n'
        f'[topics]\nprefix = "{prefix}"\npartitions = 2\n'
    )
    settings = Settings.load(file)
    create_topics(settings.connection(), settings.topics)
    done, waits = vacuum(7), vacuum(17, 18, transactions=(90,), last=9)
    other = vacuum(27, table=CUSTOMERS)
    facts = [done, release(7), waits, release(17), other]
    publish(bootstrap_servers, prefix, *facts, savepoint_request(3))
    monitor = TopicMonitor(bootstrap_servers, prefix, 2)
    stop, bus = threading.Event(), KafkaBus(settings.connection(), {"session.timeout.ms": 6000})
    gate = assemble("coordinator", settings, bus)
    running = threading.Thread(target=gate.run, args=(stop,))
    running.start()
    try:
        wait_for("the cleaning", lambda: len(monitor.commands()) == 1)
        publish(bootstrap_servers, prefix, ended(newest_task(monitor)))
        wait_for("the savepoint", lambda: len(monitor.commands()) == 2)
        publish(bootstrap_servers, prefix, savepoint_created(3), ended(newest_task(monitor)))
        wait_for("the gate's state", lambda: len(list(waiting_vacuums(settings))) == 2)
        publish(bootstrap_servers, prefix, cleaned(released(done)), started(restore_request()))
        [record] = [
            record for record in monitor.records("vacuums") if record.key == CUSTOMERS.encode()
        ]
        bus.send(
            [
                dead_letter(
                    record, "cleaner", PermanentError("a \x1b[2Jbug"), f"{prefix}.dead-letters"
                )
            ]
        )
        yield Place(bootstrap_servers, prefix, file)
    finally:
        stop.set()
        running.join()
        gate.close()
        bus.close()


def test_waiting_lists_what_the_gate_holds_back_and_for_whom(place: Place) -> None:
    by_table = {row["table"]: row for row in place.rows("waiting")}

    assert set(by_table) == {ORDERS, CUSTOMERS}
    orders = by_table[ORDERS]
    assert orders["directories"] == ["delta_0000001_0000009"]
    assert [(order["lock_id"], order["owner"]) for order in orders["outstanding"]] == [
        (18, "user18"),
        (None, None),
    ]
    assert orders["outstanding"][1]["transaction_id"] == 90
    assert orders["event_id"] == vacuum(17, 18, transactions=(90,), last=9).event_id


def test_waiting_is_selected_by_table_and_by_age(place: Place) -> None:
    assert [row["table"] for row in place.rows("waiting", "-t", ORDERS)] == [ORDERS]
    assert [row["table"] for row in place.rows("waiting", "-t", "*.CUST*")] == [CUSTOMERS]
    assert place.rows("waiting", "-t", "lake.sales.none") == []
    with pytest.raises(ConfigError, match=f"did you mean {CUSTOMERS}"):
        place.call("waiting", "-t", CUSTOMERS.replace("tom", "tm"))
    assert place.rows("waiting", "--older-than", "1h") == []
    assert place.call("waiting", "--older-than", "1h", "--check") == "no such vacuum waits\n"
    place.call("waiting", "--check", code=1)
    shown = place.call("waiting", "-t", ORDERS)
    assert "waits for 2 of 3 readers" in shown
    assert "    waits for lock 18 of user18\n    waits for transaction 90\n" in shown


def test_one_partition_of_the_rows_is_in_memory_at_a_time(place: Place) -> None:
    tables = list[set[str]]()
    former: Store | None = None
    for store in gate_stores(Settings.load(place.file)):
        if former is not None:
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                former.tables()
        tables.append(store.tables())
        former = store

    assert (len(tables), sum(map(len, tables))) == (2, 2)


def test_the_newest_of_a_table_are_explained_and_older_ones_counted(place: Place) -> None:
    shown = json.loads(place.call("explain", ORDERS, "--limit", "1", "--json"))

    assert (len(shown["events"]), len(shown["waiting"]), shown["waiting_in_all"]) == (1, 1, 1)
    assert shown["left_out"] > 3


def test_waiting_does_not_disturb_the_gate(place: Place) -> None:
    """The changelog is fenced by every writer that opens it: reading it must not."""
    before = TopicMonitor(place.servers, place.prefix, 2).commands()
    place.call("waiting")
    publish(
        place.servers,
        place.prefix,
        vacuum(37, table="lake.sales.later"),
        release(37, "lake.sales.later"),
    )
    monitor = TopicMonitor(place.servers, place.prefix, 2)
    wait_for("the next command", lambda: len(monitor.commands()) > len(before))


def test_explain_tells_the_story_of_a_table_in_order(place: Place) -> None:
    [shown] = place.rows("explain", ORDERS)

    kinds = [row["kind"] for row in shown["events"]]
    assert kinds[:4] == ["VacuumFinished", "LockReleased", "VacuumFinished", "LockReleased"]
    assert kinds[-2:] == ["DirectoriesCleaned", "RestoreStarted"]
    assert [row["event_id"] for row in shown["waiting"]] == [
        vacuum(17, 18, transactions=(90,), last=9).event_id
    ]
    [step] = shown["next"]
    assert step.endswith("have ended: lock 18 of user18, transaction 90")
    [shown] = place.rows("explain", ORDERS, "--limit", "1")
    assert (len(shown["events"]), shown["left_out"]) == (1, len(kinds) - 1)


def test_explain_follows_an_event_from_its_first_cause_to_its_outcome(place: Place) -> None:
    done = vacuum(7)
    for event_id in (done.event_id, released(done).event_id, cleaned(released(done)).event_id[:13]):
        [shown] = place.rows("explain", event_id)
        assert [row["kind"] for row in shown["events"]] == [
            "VacuumFinished",
            "LockReleased",
            "CleaningReleased",
            "DirectoriesCleaned",
        ]
        assert shown["next"] == ["nothing: every request has its outcome, and no vacuum waits"]


def test_explain_shows_dead_letters_and_nothing_that_a_terminal_obeys(place: Place) -> None:
    shown = place.call("explain", CUSTOMERS)

    assert "cleaner: a \\x1b[2Jbug" in shown
    assert "waits for a decision" in shown
    assert "\x1b" not in shown


def test_explain_finds_a_dead_letter_by_its_id(place: Place) -> None:
    [dead] = place.rows("dead-letters", "list", "-t", CUSTOMERS)
    shown = place.call("explain", dead["id"][:8])

    assert shown.startswith(vacuum(27, table=CUSTOMERS).event_id)
    assert f"{dead['id']}  open  cleaner" in shown


@pytest.mark.parametrize(
    "command",
    [
        ("events", "tail", "--no-follow"),
        ("outcomes",),
        ("dead-letters", "discard", "--reason", "x"),
        ("dead-letters", "redrive"),
    ],
)
def test_a_misspelt_table_is_answered_with_the_nearest_name(
    place: Place, command: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {CUSTOMERS}"):
        place.call(*command, "-t", CUSTOMERS.replace("tom", "tm"))


def test_a_misspelt_table_is_noted_while_new_events_are_awaited(
    place: Place, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tidegate.cli", "events", "tail", "-t", "lake.sales.cust"]
    written = tmp_path / "written"
    with (
        written.open("w") as file,
        subprocess.Popen([*command, "-c", str(place.file)], stderr=file) as tail,
    ):
        try:
            wait_for("the note", lambda: written.read_text().count("\n") == 2)
        finally:
            tail.send_signal(signal.SIGINT)
    first, second = written.read_text().splitlines()[:2]
    assert first == "tidegate: no event matches so far"
    assert second.startswith("tidegate: note: no event names the table lake.sales.cust; did you")


def test_explain_says_what_it_does_not_know(place: Place) -> None:
    with pytest.raises(TidegateError, match="nothing is known of no-such-id"):
        place.call("explain", "no-such-id")
    with pytest.raises(TidegateError, match=r"no event names the table lake\.sales\.unknown"):
        place.call("explain", "lake.sales.unknown")


def test_status_shows_services_lag_waiting_and_running_at_one_look(place: Place) -> None:
    """The unread commands are the lag of the executors, which do not run."""
    [shown] = place.rows("status", code=1)

    services = {row["service"]: row for row in shown["services"]}
    gate, cleaner = services["coordinator"], services["cleaner"]
    assert (len(gate["members"]), gate["problem"]) == (1, None)
    assert (cleaner["members"], cleaner["problem"]) == ([], "it is not running")
    tasks = TopicMonitor(place.servers, place.prefix, 2).records("tasks")
    assert cleaner["lag"] == len(tasks)
    assert (cleaner["dead_letters"], services["restorer"]["dead_letters"]) == (1, 0)
    assert cleaner["last_outcome"]["kind"] == "DirectoriesCleaned"
    assert shown["waiting"] == 2
    assert shown["oldest_waiting"]["table"] == ORDERS
    assert [row["kind"] for row in shown["running"]] == ["RestoreStarted"]
    assert (shown["savepoints_made"], shown["savepoints_removed"]) == (1, 0)


def test_the_lag_of_a_service_that_reads_falls_to_nothing(place: Place) -> None:
    def lag() -> int:
        [shown] = place.rows("status", code=1)
        return next(int(s["lag"]) for s in shown["services"] if s["service"] == "coordinator")

    wait_for("the end of the lag", lambda: lag() == 0)


def test_status_for_people_is_a_table_and_lines(place: Place) -> None:
    shown = place.call("status", code=1)

    lines = shown.splitlines()
    assert lines[0] == "needs a person:"
    assert "  cleaner is not running: tidegate run cleaner" in lines
    [header] = [line for line in lines if line.startswith("service ")]
    assert header.split() == [
        "service",
        "members",
        "lag",
        "dead",
        "letters",
        "last",
        "outcome",
        "problem",
    ]
    assert any(line.startswith("cleaner") and "it is not running" in line for line in lines)
    assert "2 vacuums wait; the oldest:" in shown
    assert f"{ORDERS}  RestoreStarted  to 20261121041551845" in shown
    assert "1 savepoint made, 0 removed" in shown


def test_status_watches_until_it_is_stopped(place: Place) -> None:
    command = [sys.executable, "-u", "-m", "tidegate.cli", "status", "--watch", "--every", "1s"]
    command += ["--json", "-c", str(place.file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        wait_for("the end of status --watch", lambda: watching.poll() is not None)
    assert looks[0]["at"] < looks[1]["at"]


def test_the_end_of_a_lock_for_which_no_vacuum_waits_is_remarked_on(place: Place) -> None:
    known = place.call("publish", "lock-released", "-t", ORDERS, "--lock-id", "17")
    wrong = place.call("publish", "lock-released", "-t", CUSTOMERS, "--lock-id", "99")

    assert "no vacuum" not in known
    assert "no vacuum that the coordinator has read waits for this lock" in wrong
    assert f"tidegate waiting --table {CUSTOMERS}" in wrong
