"""`tidegate dead-letters` on a real broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.samples import commit, message
from tidegate.cli import app
from tidegate.demo.audience import Audience
from tidegate.errors import ConfigError, PermanentError, TidegateError
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.dead_letters import dead_letter
from tidegate.runtime.kafka import KafkaBus
from tidegate.services import DECIDERS
from tidegate.settings import Settings
from tidegate.topics import create_topics

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Place:
    """A deployment with two dead letters: an event, and something that is none."""

    servers: str
    prefix: str
    file: Path
    event: Message
    poison: Message

    def call(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever the command tells as JSON
        answer = CliRunner().invoke(
            app, ["dead-letters", *arguments, "--json", "-c", str(self.file)]
        )
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.output)

    def listed(self, *arguments: str) -> list[str]:
        return [each["reason"] for each in self.call("list", *arguments)["letters"]]

    @property
    def audience(self) -> Audience:
        return Audience(self.servers, self.prefix, 2)


@pytest.fixture
def place(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    file = tmp_path / "tidegate.toml"
    file.write_text(f'[topics]\nprefix = "{topic_prefix}"\npartitions = 2\n')
    settings = Settings.load(file)
    create_topics(settings.connection(), settings.topics, DECIDERS)
    sent = message(commit(1), topic_prefix)
    poison = Message(f"{topic_prefix}.commands", b"\xff\x00", b'{"no": "event"}')
    made = Place(bootstrap_servers, topic_prefix, file, sent, poison)
    bus = KafkaBus(settings.connection())
    topic = f"{topic_prefix}.dead-letters"
    for number, (aside, service, error) in enumerate(
        [(sent, "savepoint-policy", "a bug of the code"), (poison, "restorer", "no Avro")]
    ):
        origin = Partition(aside.topic, 1)
        record = Record(origin, 40 + number, aside.key, aside.value, aside.headers, 1_000)
        letter = dead_letter(record, service, PermanentError(error), topic)
        bus.send([letter, letter] if number else [letter])  # a crash writes a letter twice
    bus.close()
    return made


def test_letters_are_listed_once_and_by_filter(place: Place) -> None:
    assert place.listed() == ["a bug of the code", "no Avro"]
    assert place.listed("--service", "restorer") == ["no Avro"]
    assert place.listed("--topic", "commits") == ["a bug of the code"]
    assert place.listed("-t", "lake.sales.orders") == ["a bug of the code"]
    assert place.listed("--reason", "avro") == ["no Avro"]
    assert place.listed("--to-time", "2020-01-01T00:00:00Z") == []
    [row] = place.call("list", "--service", "restorer")["letters"]
    assert row["origin"] == f"{place.prefix}.commands/1/41"
    assert (row["table"], row["state"]) == ("unknown.unknown.unknown", "waiting")


def test_a_letter_is_shown_whole(place: Place) -> None:
    event, poison = place.call("list")["letters"]

    told = place.call("show", event["id"][:13])
    assert told["decodes_as"] == "CommitCompleted"
    assert told["event"]["event_id"] == commit(1).event_id
    assert ["ce_type", "io.tidegate.CommitCompleted"] in told["headers"]
    assert ["__connect.errors.exception.message", "a bug of the code"] in told["headers"]
    told = place.call("show", poison["id"])
    assert (told["decodes_as"], told["value_text"]) == (None, '{"no": "event"}')
    assert (told["key"], told["value_hex"]) == ("\\xff\x00", b'{"no": "event"}'.hex())
    with pytest.raises(TidegateError, match="0 dead letters have an id that begins"):
        place.call("show", "nothing")


def test_a_dry_run_sends_nothing_and_tells_nothing(place: Place) -> None:
    told = place.call("redrive", "--service", "savepoint-policy")
    assert (told["executed"], len(told["letters"])) == (False, 1)
    told = place.call("discard", "--service", "restorer", "--because", "a test")
    assert (told["executed"], len(told["letters"])) == (False, 1)

    assert place.audience.records("commits") == []
    assert place.audience.records("outcomes") == []
    assert len(place.listed()) == 2


def test_a_redriven_letter_is_back_as_it_was_told_of_and_listed_no_more(place: Place) -> None:
    [row] = place.call("list", "--service", "savepoint-policy")["letters"]

    place.call("redrive", row["id"], "--requested-by", "ana", "--execute")

    [back] = place.audience.records("commits")
    assert (back.key, back.value) == (place.event.key, place.event.value)
    mark = ("tidegate-redriven-from", row["id"].encode())
    assert back.headers == (*place.event.headers, mark)
    [told] = place.audience.outcomes()
    assert isinstance(told, DeadLetterRedriven)
    assert (told.table, told.location) == ("lake.sales.orders", "/lake/orders")
    assert (told.caused_by, told.requested_by) == (row["id"], "ana")
    assert (told.service, told.error) == ("savepoint-policy", "a bug of the code")
    assert (told.origin_topic, told.origin_partition, told.origin_offset) == (
        f"{place.prefix}.commits",
        1,
        40,
    )
    assert place.listed() == ["no Avro"]
    states = {each["state"] for each in place.call("list", "--all")["letters"]}
    assert states == {"redriven", "waiting"}


def test_a_discarded_letter_stays_and_is_listed_no_more(place: Place) -> None:
    place.call("discard", "--reason", "avro", "--because", "a test message", "--execute")

    [told] = place.audience.outcomes()
    assert isinstance(told, DeadLetterDiscarded)
    assert (told.table, told.reason) == ("unknown.unknown.unknown", "a test message")
    assert place.listed() == ["a bug of the code"]
    assert len(place.audience.dead_letters()) == 3
    assert place.audience.records("commands") == []


def test_all_letters_at_once_are_named_by_a_filter(place: Place) -> None:
    with pytest.raises(ConfigError, match="say which dead letters"):
        place.call("redrive", "--execute")


@pytest.mark.parametrize("command", [("redrive",), ("discard", "--because", "a test")])
def test_a_decision_about_no_letter_is_refused(place: Place, command: tuple[str, ...]) -> None:
    place.call("redrive", "--service", "restorer", "--execute")

    with pytest.raises(TidegateError, match="no dead letter that waits"):
        place.call(*command, "--service", "restorer", "--execute")


def test_a_letter_from_elsewhere_is_not_sent_there(place: Place) -> None:
    bus = KafkaBus({"bootstrap.servers": place.servers})
    record = Record(Partition("billing.invoices", 0), 3, b"k", b"v", (), 1_000)
    topic = f"{place.prefix}.dead-letters"
    bus.send([dead_letter(record, "billing", PermanentError("x"), topic)])
    bus.close()

    with pytest.raises(TidegateError, match="none of this deployment's"):
        place.call("redrive", "--service", "billing", "--execute")
    assert place.listed("--service", "billing") == ["x"]


def test_on_a_terminal_letters_are_a_table(place: Place) -> None:
    answer = CliRunner().invoke(app, ["dead-letters", "list", "-c", str(place.file)])

    lines = answer.output.splitlines()
    assert lines[0].split() == ["id", "at", "service", "origin", "table", "state", "reason"]
    assert "a bug of the code" in lines[1]
    assert f"{place.prefix}.commands/1/41" in lines[2]
