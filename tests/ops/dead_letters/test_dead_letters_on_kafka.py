"""`tidegate dead-letters` on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.json_lines import json_lines
from support.samples import NOON, commit, message, task_message
from support.topic_monitor import TopicMonitor
from tidegate.cli import app
from tidegate.errors import ConfigError, PermanentError, TidegateError
from tidegate.events import Command, DeadLetterDiscarded, DeadLetterRedriven, RestoreRequested
from tidegate.ops.topics import create_topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import Settings

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Place:
    """A deployment with two dead letters: an event, and bytes that are not one."""

    servers: str
    prefix: str
    file: Path
    event: Message
    poison: Message

    def call(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever the command tells as JSON
        return json.loads(self.run(*arguments).stdout)

    def run(self, *arguments: str) -> Result:
        answer = CliRunner().invoke(
            app, ["dead-letters", *arguments, "--json", "-c", str(self.file)]
        )
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        assert answer.exit_code == 0, answer.output
        return answer

    def listed(self, *arguments: str) -> list[str]:
        return [row["reason"] for row in self.rows(*arguments)]

    def rows(self, *arguments: str) -> list[Any]:
        return json_lines(self.run("list", *arguments).stdout)

    def origin(self, topic: str) -> str:
        record = self.audience.records(topic)[0]
        return f"{record.partition.topic}/{record.partition.number}/{record.offset}"

    @property
    def audience(self) -> TopicMonitor:
        return TopicMonitor(self.servers, self.prefix, 2)


@pytest.fixture
def place(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    file = tmp_path / "tidegate.toml"
    file.write_text(f'[topics]\nprefix = "{topic_prefix}"\npartitions = 2\n')
    settings = Settings.load(file)
    create_topics(settings.connection(), settings.topics)
    sent = message(commit(1), topic_prefix)
    poison = Message(f"{topic_prefix}.requests", b"\xff\x00", b'{"no": "event"}')
    made = Place(bootstrap_servers, topic_prefix, file, sent, poison)
    bus = KafkaBus(settings.connection())
    topic = f"{topic_prefix}.dead-letters"
    bus.send([sent, poison])
    for number, (topic_name, service, error) in enumerate(
        [("commits", "coordinator", "a bug of the code"), ("requests", "restorer", "no Avro")]
    ):
        [record] = made.audience.records(topic_name)
        written = dead_letter(record, service, PermanentError(error), topic)
        bus.send([written, written] if number else [written])  # a crash writes it twice
    bus.close()
    return made


def test_dead_letters_are_listed_once_and_by_filter(place: Place) -> None:
    assert place.listed() == ["no Avro", "a bug of the code"]
    assert place.listed("--limit", "1") == ["no Avro"]
    assert "only the newest 1 are listed" in place.run("list", "--limit", "1").stderr
    assert place.listed("--service", "restorer") == ["no Avro"]
    assert place.listed("--topic", "commits") == ["a bug of the code"]
    assert place.listed("-t", "lake.sales.orders") == ["a bug of the code"]
    with pytest.raises(ConfigError, match=r"did you mean lake\.sales\.orders\?"):
        place.run("list", "-t", "lake.sales.ordrs")
    assert place.run("list", "-t", "lake.sales.orders", "--service", "cleaner").stderr == ""
    assert place.listed("--error", "avro") == ["no Avro"]
    assert place.listed("--since", "2099-01-01T00:00:00Z") == []
    [row] = place.rows("--service", "restorer")
    assert row["origin"] == place.origin("requests")
    assert (row["table"], row["state"]) == ("unknown.unknown.unknown", "open")


def test_a_dead_letter_is_shown_whole(place: Place) -> None:
    poison, event = place.rows()

    shown = place.call("show", event["id"][:13])
    assert shown["decodes_as"] == "CommitCompleted"
    assert shown["event"]["event_id"] == commit(1).event_id
    assert ["ce_type", "io.tidegate.CommitCompleted"] in shown["headers"]
    assert ["__connect.errors.exception.message", "a bug of the code"] in shown["headers"]
    bus = KafkaBus({"bootstrap.servers": place.servers})
    [record] = place.audience.records("commits")
    unkeyed = dead_letter(
        record._replace(key=None, headers=()),
        "restorer",
        PermanentError("no key"),
        f"{place.prefix}.dead-letters",
    )
    bus.send([unkeyed])
    bus.close()
    [row] = place.rows("--error", "no key")
    shown = place.call("show", row["id"])
    assert (row["table"], shown["table"]) == ("lake.sales.orders", "lake.sales.orders")
    assert shown["event"]["event_id"] == commit(1).event_id
    shown = place.call("show", poison["id"])
    assert (shown["decodes_as"], shown["value_text"]) == (None, '{"no": "event"}')
    assert (shown["key"], shown["value_hex"]) == ("\\xff\x00", b'{"no": "event"}'.hex())
    with pytest.raises(TidegateError, match="no dead letter has an id that starts with"):
        place.call("show", "nothing")


def test_a_dry_run_sends_nothing_and_tells_nothing(place: Place) -> None:
    shown = place.call("redrive", "--service", "coordinator")
    assert (shown["executed"], len(shown["dead_letters"])) == (False, 1)
    shown = place.call("discard", "--service", "restorer", "--reason", "a test")
    assert (shown["executed"], len(shown["dead_letters"])) == (False, 1)

    assert len(place.audience.records("commits")) == 1
    assert place.audience.records("outcomes") == []
    assert len(place.listed()) == 2


def test_redrive_warns_of_messages_that_fail_again(place: Place) -> None:
    warned = place.run("redrive", "--service", "restorer").stderr
    assert "1 of them fails again, since the payload can't be decoded" in warned
    assert "tidegate dead-letters discard" in warned
    assert "again" not in place.run("redrive", "--service", "coordinator").stderr


def test_traces_are_shown_on_request(place: Place) -> None:
    [row] = place.rows("--service", "restorer")
    shown = ("dead-letters", "show", row["id"], "-c", str(place.file))

    assert "stacktrace" not in CliRunner().invoke(app, shown).output
    assert "stacktrace" in CliRunner().invoke(app, [*shown, "--verbose"]).output


def test_an_open_dead_letter_is_shown_with_the_decision_on_it(place: Place) -> None:
    config = ("-c", str(place.file))

    def steps(id_: str) -> list[str]:
        lines = CliRunner().invoke(app, ["dead-letters", "show", id_, *config]).output.splitlines()
        return [line.partition(": ")[2] for line in lines if line.startswith("to ")]

    event, poison = (place.rows("--service", name)[0]["id"] for name in ("coordinator", "restorer"))
    discard = "tidegate dead-letters discard {} --reason WHY"
    assert steps(event) == [f"tidegate dead-letters redrive {event}", discard.format(event)]
    assert steps(poison) == [discard.format(poison)]
    shown = CliRunner().invoke(app, ["dead-letters", "show", event, *config]).output
    assert shown.index("to discard it: ") < shown.index("\nkey: ") < shown.index("\nheader ")
    place.call("discard", poison, "--reason", "a test", "--execute")
    assert steps(poison) == []


def test_a_redriven_dead_letter_is_back_and_listed_no_more(place: Place) -> None:
    [row] = place.rows("--service", "coordinator")

    place.call("redrive", row["id"], "--requested-by", "ana", "--execute")

    [_, back] = place.audience.records("commits")
    assert (back.key, back.value) == (place.event.key, place.event.value)
    mark = ("tidegate-redriven-from", row["id"].encode())
    assert back.headers == (*place.event.headers, mark)
    [shown] = place.audience.outcomes()
    assert isinstance(shown, DeadLetterRedriven)
    assert (shown.table, shown.location) == ("lake.sales.orders", "/lake/orders")
    assert (shown.caused_by, shown.requested_by) == (row["id"], "ana")
    assert (shown.service, shown.error) == ("coordinator", "a bug of the code")
    [original, _] = place.audience.records("commits")
    assert (shown.origin_topic, shown.origin_partition, shown.origin_offset) == (
        f"{place.prefix}.commits",
        original.partition.number,
        original.offset,
    )
    assert place.listed() == ["no Avro"]
    states = {row["state"] for row in place.rows("--all")}
    assert states == {"redriven", "open"}


def test_an_original_of_two_dead_letters_is_sent_once_however_many_batches_they_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.ops.dead_letters.box._BATCH", 1)
    [record] = place.audience.records("commits")
    bus = KafkaBus({"bootstrap.servers": place.servers})
    bus.send([dead_letter(record, "gate", PermanentError("x"), f"{place.prefix}.dead-letters")])
    bus.close()

    shown = place.call("redrive", "--topic", "commits", "--limit", "1", "--execute")

    assert (shown["count"], len(shown["dead_letters"]), shown["more"]) == (2, 1, True)
    assert [record.offset for record in place.audience.records("commits")] == [0, 1]
    assert {outcome.caused_by for outcome in place.audience.outcomes()} == {
        row["id"] for row in place.rows("--all", "--topic", "commits")
    }
    assert place.listed() == ["no Avro"]


def test_nothing_is_sent_if_one_of_many_is_not_what_is_at_its_origin(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.ops.dead_letters.box._BATCH", 1)
    [record] = place.audience.records("commits")
    lie = record._replace(value=b"something else")
    bus = KafkaBus({"bootstrap.servers": place.servers})
    bus.send([dead_letter(lie, "liar", PermanentError("x"), f"{place.prefix}.dead-letters")])
    bus.close()

    [right] = place.rows("--service", "coordinator")
    [wrong] = place.rows("--error", "x")
    with pytest.raises(TidegateError) as refused:
        place.call("redrive", "--topic", "commits", "--execute")
    again = f"tidegate dead-letters redrive {right['id']} --execute"
    assert str(refused.value) == (
        f"nothing is redriven, since these can't be: {wrong['id']} (value and record at its origin"
        f" differ). To redrive the others: {again}"
    )
    assert len(place.audience.records("commits")) == 1
    assert place.audience.outcomes() == []
    place.call(*again.split()[2:])
    assert len(place.audience.records("commits")) == 2


def test_a_discarded_dead_letter_stays_and_is_listed_no_more(place: Place) -> None:
    place.call("discard", "--error", "avro", "--reason", "a test message", "--execute")

    [shown] = place.audience.outcomes()
    assert isinstance(shown, DeadLetterDiscarded)
    assert (shown.table, shown.reason) == ("unknown.unknown.unknown", "a test message")
    assert place.listed() == ["a bug of the code"]
    assert len(place.audience.dead_letters()) == 3
    assert len(place.audience.records("requests")) == 1


def test_all_dead_letters_at_once_are_named_by_a_filter(place: Place) -> None:
    with pytest.raises(ConfigError, match="tidegate dead-letters list"):
        place.call("redrive", "--execute")


@pytest.mark.parametrize("command", [("redrive",), ("discard", "--reason", "a test")])
def test_a_decision_about_no_dead_letter_is_refused(place: Place, command: tuple[str, ...]) -> None:
    place.call("redrive", "--service", "restorer", "--execute")

    with pytest.raises(TidegateError, match="no open dead letter matches"):
        place.call(*command, "--service", "restorer", "--execute")


def test_a_dead_letter_from_elsewhere_is_not_sent_there(place: Place) -> None:
    bus = KafkaBus({"bootstrap.servers": place.servers})
    record = Record(Partition("billing.invoices", 0), 3, b"k", b"v", (), 1_000)
    topic = f"{place.prefix}.dead-letters"
    bus.send([dead_letter(record, "savepoint-writer", PermanentError("x"), topic)])
    bus.close()

    with pytest.raises(TidegateError, match="not a topic of this deployment"):
        place.call("redrive", "--service", "savepoint-writer", "--execute")
    assert place.listed("--service", "savepoint-writer") == ["x"]


def test_on_a_terminal_dead_letters_are_a_table(place: Place) -> None:
    answer = CliRunner().invoke(app, ["dead-letters", "list", "-c", str(place.file)])

    lines = answer.output.splitlines()
    assert lines[0].split() == ["id", "at", "service", "origin", "table", "state", "reason"]
    assert "a bug of the code" in lines[2]
    assert place.origin("requests") in lines[1]


def test_a_forged_dead_letter_of_a_restore_without_a_request_is_not_sent(place: Place) -> None:
    """Any service may write dead letters; this one names the requests topic as its origin."""
    forged = message(
        RestoreRequested(
            event_id="5f0a1c7e-0000-5000-8000-000000000001",
            table="lake.sales.orders",
            location="/lake/orders",
            occurred_at=NOON,
            source="mallory",
            savepoint="20261121041551845",
            requested_by="ana",
            reason="none",
        ),
        place.prefix,
    )
    [record] = place.audience.records("requests")
    bus = KafkaBus({"bootstrap.servers": place.servers})
    topic = f"{place.prefix}.dead-letters"
    for original in (record, record._replace(offset=77)):
        lie = original._replace(key=forged.key, value=forged.value, headers=forged.headers)
        bus.send([dead_letter(lie, "cleaner", PermanentError("x"), topic)])
    bus.close()

    for row in place.rows("--service", "cleaner"):
        with pytest.raises(TidegateError, match=r"(key and record|no longer in the topic)"):
            place.call("redrive", row["id"], "--destructive", "--execute")
    assert len(place.audience.records("requests")) == 1
    assert place.audience.outcomes() == []


@pytest.mark.parametrize(
    ("topic_name", "message_of"),
    [
        pytest.param("requests", message, id="a request"),
        pytest.param("tasks", task_message, id="the task that carries it"),
    ],
)
def test_what_destroys_is_redriven_with_an_explicit_word_only(
    place: Place, topic_name: str, message_of: Callable[[Command, str], Message]
) -> None:
    request = message_of(
        RestoreRequested(
            event_id="5f0a1c7e-0000-5000-8000-000000000001",
            table="lake.sales.orders",
            location="/lake/orders",
            occurred_at=NOON,
            source="cli",
            savepoint="20261121041551845",
            requested_by="ana",
            reason="a bad load",
        ),
        place.prefix,
    )
    before = len(place.audience.records(topic_name))
    bus = KafkaBus({"bootstrap.servers": place.servers})
    bus.send([request])
    record = place.audience.records(topic_name)[-1]
    topic = f"{place.prefix}.dead-letters"
    bus.send([dead_letter(record, "restorer", PermanentError("a bug"), topic)])
    bus.close()

    [row] = place.call(
        "redrive", "--error", "a bug", "-t", "lake.sales.orders", "--service", "restorer"
    )["dead_letters"]
    assert row["event"]["kind"] == "RestoreRequested"
    assert row["event"]["savepoint"] == "20261121041551845"
    with pytest.raises(TidegateError, match=r"destroy data .*add --destructive"):
        place.call("redrive", row["id"], "--execute")
    assert len(place.audience.records(topic_name)) == before + 1

    place.call("redrive", row["id"], "--destructive", "--execute")
    assert len(place.audience.records(topic_name)) == before + 2
