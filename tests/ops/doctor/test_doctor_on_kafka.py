"""The doctor before a real broker: a deployment that is well, and what is wrong with others."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from support.json_lines import json_lines
from support.kafka import create_topic, delete_first_records
from support.samples import commit
from tidegate.cli import app
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.errors import ConfigError, PermanentError
from tidegate.events import Event
from tidegate.events.topics import partition_of
from tidegate.events.wire import Wire
from tidegate.publisher import ConfirmedProducer
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import SERVICES

pytestmark = pytest.mark.kafka
Tidegate = Callable[..., Result]


@pytest.fixture
def tidegate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> Tidegate:
    """The command, for a deployment with two partitions and one root."""
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    (tmp_path / "lake").mkdir()
    file = tmp_path / "tidegate.toml"
    file.write_text(
        f'[kafka]\n"bootstrap.servers" = "{bootstrap_servers}"\n'
        f'[topics]\nprefix = "{topic_prefix}"\npartitions = 2\n'
        f'[warehouse]\nroots = ["{tmp_path / "lake"}"]\n'
    )

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "-c", str(file)])

    return call


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[ConfirmedProducer]:
    producer = ConfirmedProducer({"bootstrap.servers": bootstrap_servers})
    yield producer
    producer.close()


def findings(answer: Result) -> dict[str, dict[str, str]]:
    return {line["check"]: line for line in json_lines(answer.stdout)}


def partitions(admin: AdminClient, topic: str) -> int:
    found = admin.list_topics(timeout=60).topics.get(topic)
    return len(found.partitions) if found else 0


def say(producer: ConfirmedProducer, topic: str, event: Event) -> None:
    producer.send([Wire().serialize(event, topic)._replace(partition=0)])


def test_a_deployment_that_is_well_has_nothing_but_well_checks(tidegate: Tidegate) -> None:
    tidegate("topics", "create")

    answer = tidegate("doctor", "--json", "--write")

    assert answer.exit_code == 0
    states = {check: finding["state"] for check, finding in findings(answer).items()}
    assert states.pop("clock") == "skipped"
    assert states.pop("signatures") == "warn"  # none are required here
    assert {states.pop(f"running {service}") for service in SERVICES} == {"warn"}
    assert set(states.values()) == {"ok"}
    for service in SERVICES:
        assert {f"offsets {service}", f"access {service}"} <= set(states)
    assert findings(answer)["state"]["seen"] == "0 tables can be restored"


def test_a_memory_of_topics_that_were_made_anew_fails_until_the_advice_is_followed(
    tidegate: Tidegate,
    admin: AdminClient,
    producer: ConfirmedProducer,
    bootstrap_servers: str,
    topic_prefix: str,
) -> None:
    tidegate("topics", "create")
    topic = f"{topic_prefix}.commits"
    say(producer, topic, commit(1))
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    policy = CoordinatorLoop(SavepointSubject(), bus, topic_prefix)
    while not policy.step(0.1):
        pass
    well = findings(tidegate("doctor", "coordinator", "--json"))["state"]
    say(producer, topic, commit(2))
    while not policy.step(
        0.1
    ):  # a second owner of its changelog, the doctor too, would stop it here
        pass
    policy.close()
    bus.close()
    [gone] = admin.delete_topics([topic]).values()
    gone.result(60)
    create_topic(bootstrap_servers, topic, 2)
    while partitions(admin, topic) != 2:
        time.sleep(0.05)

    answer = tidegate("doctor", "coordinator", "--json")

    ill = findings(answer)["state"]
    assert (well["state"], answer.exit_code, ill["state"]) == ("ok", 1, "fail")
    assert f"{topic} was deleted and created again" in ill["seen"]
    command = shlex.split(ill["advice"].partition("then run: ")[2])
    assert tidegate(*command[1:]).exit_code == 0
    after = findings(tidegate("doctor", "coordinator", "--json"))
    assert after["state"]["state"] == "ok"


def test_a_changelog_without_its_first_records_fails_until_the_advice_is_followed(
    tidegate: Tidegate,
    admin: AdminClient,
    producer: ConfirmedProducer,
    bootstrap_servers: str,
    topic_prefix: str,
) -> None:
    tidegate("topics", "create")
    topic = f"{topic_prefix}.coordinator.changelog"
    say(producer, f"{topic_prefix}.commits", commit(1))
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    policy = CoordinatorLoop(SavepointSubject(), bus, topic_prefix)
    while not policy.step(0.1):
        pass
    policy.close()
    delete_first_records(bootstrap_servers, topic, 2)

    answer = tidegate("doctor", "coordinator", "--json")

    ill = findings(answer)["state"]
    assert (answer.exit_code, ill["state"]) == (1, "fail")
    assert ill["seen"].startswith(f"{topic}[0] begins at offset 2: its first records were deleted")
    _, _, commands = ill["advice"].partition("the addresses of the brokers: ")
    delete, *rest = commands.split(" && ")
    assert delete.endswith(f"--delete --topic {topic}")
    [gone] = admin.delete_topics([topic]).values()
    gone.result(60)
    while partitions(admin, topic):
        time.sleep(0.05)
    for command in rest:
        assert tidegate(*shlex.split(command)[1:]).exit_code == 0
    after = findings(tidegate("doctor", "coordinator", "--json"))
    assert after["state"]["state"] == "ok"
    policy = CoordinatorLoop(SavepointSubject(), bus, topic_prefix)
    while not policy.step(0.1):
        pass
    policy.close()
    bus.close()


def test_failures_come_first_and_well_checks_of_a_kind_are_one_line(
    tidegate: Tidegate, tmp_path: Path
) -> None:
    lines = tidegate("doctor").stdout.splitlines()

    assert re.match(r"fail    topics: \d+ topics are missing \(", lines[0])
    assert lines[0].endswith(" -> see: tidegate topics check")
    states = [line.split()[0] for line in lines]
    assert states == sorted(states, key=["fail", "warn", "skipped", "ok"].index)
    assert any(line.startswith("ok      broker: 1 reached as ") for line in lines)
    assert f"ok      offsets: {', '.join(SERVICES)}" in lines
    assert lines[-1] == (
        f"ok      root {tmp_path / 'lake'}: 0 entries; use --write to test writing"
    )


def test_a_service_that_is_stopped_is_a_warning_with_its_command(
    tidegate: Tidegate, producer: ConfirmedProducer, bootstrap_servers: str, topic_prefix: str
) -> None:
    tidegate("topics", "create")
    say(producer, f"{topic_prefix}.commits", commit(1))
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    policy = CoordinatorLoop(SavepointSubject(), bus, topic_prefix)
    while not policy.step(0.1):
        pass

    assert "ok      running coordinator: it is running" in tidegate("doctor").stdout
    policy.close()
    bus.close()
    stopped = "warn    running coordinator: it is not running -> start it: tidegate run coordinator"
    assert stopped in tidegate("doctor").stdout


def test_an_event_on_another_partition_fails_until_its_dead_letter_is_resolved(
    tidegate: Tidegate, producer: ConfirmedProducer, bootstrap_servers: str, topic_prefix: str
) -> None:
    tidegate("topics", "create")
    topic, event = f"{topic_prefix}.commits", commit(1)
    elsewhere = 1 - partition_of(event.table, 2)
    producer.send([Wire().serialize(event, topic)._replace(partition=elsewhere)])
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    [record] = bus.read(bus.spans(topic))
    dead = f"{topic_prefix}.dead-letters"
    bus.send([dead_letter(record, "coordinator", PermanentError("elsewhere"), dead)])
    bus.close()

    def placement() -> str:
        return findings(tidegate("doctor", "--json"))["placement commits"]["state"]

    assert placement() == "fail"
    why = ("--service", "coordinator", "--reason", "a test", "--execute")
    assert tidegate("dead-letters", "discard", *why).exit_code == 0
    assert placement() == "ok"


def test_an_unknown_service_is_wrong(tidegate: Tidegate) -> None:
    answer = tidegate("doctor", "nonsense")

    assert isinstance(answer.exception, ConfigError)
    assert "unknown service 'nonsense': choose from coordinator" in str(answer.exception)


def test_topics_with_another_number_of_partitions_fail(
    tidegate: Tidegate, admin: AdminClient, bootstrap_servers: str, topic_prefix: str
) -> None:
    tidegate("topics", "create")
    [gone] = admin.delete_topics([f"{topic_prefix}.locks"]).values()
    gone.result(60)
    create_topic(bootstrap_servers, f"{topic_prefix}.locks", 3)
    # a broker lists a new topic late
    while partitions(admin, f"{topic_prefix}.locks") != 3:
        time.sleep(0.05)

    answer = tidegate("doctor", "--json")

    findings_ = findings(answer)
    assert answer.exit_code == 1
    assert findings_["topics"]["state"] == "fail"
    seen = findings_["topics"]["seen"]
    assert f"{topic_prefix}.locks has 3 partitions, but [topics] partitions is 2" in seen


def test_a_group_whose_events_are_gone_fails_until_the_advice_is_followed(
    tidegate: Tidegate, admin: AdminClient, producer: ConfirmedProducer, topic_prefix: str
) -> None:
    tidegate("topics", "create")
    topic = f"{topic_prefix}.commits"
    for number in range(4):
        say(producer, topic, commit(number))
    at_one = [TopicPartition(topic, 0, 1)]
    asked = ConsumerGroupTopicPartitions(f"{topic_prefix}.coordinator", at_one)
    [done] = admin.alter_consumer_group_offsets([asked]).values()
    done.result(60)
    well = findings(tidegate("doctor", "coordinator", "--json"))
    [removed] = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    removed.result(60)

    answer = tidegate("doctor", "coordinator", "--json")

    findings_ = findings(answer)["offsets coordinator"]
    assert well["offsets coordinator"]["seen"] == "in range, 3 records behind"
    assert (answer.exit_code, findings_["state"]) == (1, "fail")
    assert findings_["seen"] == f"committed offset 1 of {topic}[0], which holds 3 to 4"
    command = shlex.split(findings_["advice"].partition("then run: ")[2])
    assert tidegate(*command[1:]).exit_code == 0
    after = findings(tidegate("doctor", "coordinator", "--json"))
    assert after["offsets coordinator"]["seen"] == "in range, 1 record behind"


@pytest.mark.parametrize(
    ("late", "state"),
    [
        pytest.param(timedelta(), "ok", id="a clock that is right"),
        pytest.param(timedelta(hours=1), "warn", id="a clock that is an hour behind"),
        pytest.param(timedelta(hours=-1), "warn", id="a clock that is an hour ahead"),
    ],
)
def test_the_newest_outcomes_tell_of_the_clocks_and_no_more_than_a_warning(
    tidegate: Tidegate, producer: ConfirmedProducer, topic_prefix: str, late: timedelta, state: str
) -> None:
    tidegate("topics", "create")
    for before in (timedelta(hours=7), late, late):
        fields = {"occurred_at": datetime.now(UTC) - before, "source": "restorer"}
        outcome = commit(1).model_copy(update=fields)
        say(producer, f"{topic_prefix}.outcomes", outcome)

    answer = tidegate("doctor", "coordinator", "--json")

    findings_ = findings(answer)
    assert [finding for finding in findings_.values() if finding["state"] == "fail"] == []
    assert (answer.exit_code, findings_["clock"]["state"]) == (0, state)


@pytest.mark.spark
@pytest.mark.slow
def test_with_spark_a_job_is_run(tmp_path: Path, bootstrap_servers: str) -> None:
    settings = tmp_path / "tidegate.toml"
    settings.write_text('[spark.conf]\n"spark.master" = "local[1]"\n')
    command = [sys.executable, "-m", "tidegate.cli", "doctor", "cleaner", "--json", "--spark"]
    environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers}

    # a process of its own: its session must not become that of the other tests
    answer = subprocess.run(
        [*command, "-c", str(settings)], env=environment, capture_output=True, check=False
    )

    findings_ = {line["check"]: line for line in json_lines(answer.stdout.decode())}
    assert findings_["spark"]["state"] == "ok"
    assert findings_["spark"]["seen"].endswith(": a job ran on local[1]")
