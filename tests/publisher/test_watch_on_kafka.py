"""Waiting for the outcome of what was published, on a real broker."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.deployment_events import (
    ORDERS,
    SAVEPOINT,
    cleaned,
    cleaned_in_parts,
    completed,
    publish,
    rejected,
    released,
    restore_request,
    started,
    vacuum,
)
from support.samples import commit, task_message
from support.waiting import wait_for
from tidegate.errors import ConfigError, PermanentError
from tidegate.events import DirectoriesCleaned, RestoreRequested
from tidegate.events.base import Verdict
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import TopicSettings

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Place:
    servers: str
    prefix: str
    publisher: Publisher


@pytest.fixture(scope="module")
def place(bootstrap_servers: str) -> Iterator[Place]:
    prefix = f"watch-{uuid.uuid4().hex[:8]}"
    settings = TopicSettings(prefix=prefix, partitions=3)
    create_topics({"bootstrap.servers": bootstrap_servers}, settings)
    with Publisher(bootstrap_servers, source="test", prefix=prefix) as publisher:
        yield Place(bootstrap_servers, prefix, publisher)


def test_an_outcome_that_came_before_the_waiting_began_is_not_lost(place: Place) -> None:
    request = restore_request("early")
    with place.publisher.watch(ORDERS) as watch:
        [receipt] = place.publisher.publish(request)
        publish(place.servers, place.prefix, started(request), completed(request))

        seen = list(watch.answers(receipt, 60))

    assert [outcome.verdict for outcome in seen] == [Verdict.UNDER_WAY, Verdict.DONE]
    assert seen[-1].outcome == completed(request)


def test_only_the_outcome_of_the_very_event_counts(place: Place) -> None:
    mine, another = restore_request("mine"), restore_request("another")
    of_another_table = restore_request("mine", "lake.sales.customers")
    with place.publisher.watch(ORDERS) as watch:
        [receipt] = place.publisher.publish(mine)
        publish(
            place.servers,
            place.prefix,
            completed(another),
            completed(of_another_table),
            rejected(mine),
        )
        answered = watch.wait_for(receipt, 60)

    assert (answered.verdict, answered.outcome) == (Verdict.REFUSED, rejected(mine))


def test_without_an_outcome_the_waiting_ends_in_time(place: Place) -> None:
    with place.publisher.watch(ORDERS) as watch:
        [receipt] = place.publisher.publish(restore_request("never"))
        answered = watch.wait_for(receipt, 0.5)

    assert answered.verdict is Verdict.UNANSWERED
    assert answered.message == "no final outcome within 0.5 s"


def test_what_is_published_again_finds_the_outcome_that_it_has(place: Place) -> None:
    request = restore_request("again")
    publish(place.servers, place.prefix, completed(request))
    with place.publisher.watch(ORDERS) as later:
        [receipt] = place.publisher.publish(request)
        assert later.wait_for(receipt, 0.5).verdict is Verdict.UNANSWERED
    with place.publisher.watch(ORDERS, from_start=True) as watch:
        [receipt] = place.publisher.publish(request)
        assert watch.wait_for(receipt, 60).verdict is Verdict.DONE


def test_a_vacuum_is_answered_through_the_command_that_follows_from_it(place: Place) -> None:
    event = vacuum(7)
    with place.publisher.watch(ORDERS) as watch:
        [receipt] = place.publisher.publish(event)
        publish(place.servers, place.prefix, cleaned(released(event)))
        answered = watch.wait_for(receipt, 60)

    assert answered.verdict is Verdict.DONE
    assert isinstance(answered.outcome, DirectoriesCleaned)


def test_an_outcome_in_parts_is_waited_for_until_its_last_part(place: Place) -> None:
    event = vacuum(8)
    first, *others = cleaned_in_parts(released(event), 3)
    with place.publisher.watch(ORDERS) as watch:
        [receipt] = place.publisher.publish(event)
        publish(place.servers, place.prefix, first)
        assert watch.wait_for(receipt, 0.5).verdict is Verdict.UNANSWERED
        publish(place.servers, place.prefix, first, *others)  # killed, and said again
        [answered] = watch.answers(receipt, 60)

    assert answered.verdict is Verdict.DONE
    assert isinstance(answered.outcome, DirectoriesCleaned)
    assert (len(answered.outcome.directories), answered.outcome.files) == (3, 6)


@pytest.mark.parametrize("is_task", [False, True], ids=["the request", "its task"])
def test_a_request_that_was_dead_lettered_has_failed(place: Place, *, is_task: bool) -> None:
    request = restore_request("poison")
    with place.publisher.watch(ORDERS) as watch:
        [receipt] = place.publisher.publish(request)
        bus = KafkaBus({"bootstrap.servers": place.servers})
        [record] = [
            record
            for record in bus.log(Partition(receipt.topic, receipt.partition))
            if record.offset == receipt.offset
        ]
        if is_task:
            record = record._replace(headers=task_message(request).headers)
        written = dead_letter(
            record, "restorer", PermanentError("no such code"), f"{place.prefix}.dead-letters"
        )
        of_another = Record(record.partition, 0, record.key, b"", (("ce_id", b"other"),), 1)
        bus.send([dead_letter(of_another, "x", PermanentError("x"), written.topic), written])
        bus.close()
        answered = watch.wait_for(receipt, 60)

    assert (answered.verdict, answered.outcome) == (Verdict.FAILED, None)
    assert answered.message == "it was dead-lettered: no such code"


def test_topics_that_are_missing_are_said_before_anything_is_published(place: Place) -> None:
    with (
        Publisher(place.servers, source="test", prefix="nowhere") as lost,
        pytest.raises(ConfigError, match=r"topic nowhere\.outcomes does not exist"),
    ):
        lost.watch(ORDERS)


def _settings(place: Place, folder: Path) -> str:
    file = folder / "tidegate.toml"
    file.write_text(
        f'[kafka]\n"bootstrap.servers" = "{place.servers}"\n[topics]\nprefix = "{place.prefix}"\n'
    )
    return str(file)


@pytest.mark.parametrize(
    ("answer", "code", "verdict"),
    [
        pytest.param(completed, 0, "done", id="done"),
        pytest.param(rejected, 3, "refused", id="refused"),
        pytest.param(None, 4, "unanswered", id="not answered in time"),
    ],
)
def test_the_command_waits_and_its_exit_code_is_the_outcomes(  # noqa: PLR0913, PLR0917 - fixtures
    place: Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: object,
    code: int,
    verdict: str,
) -> None:
    request_id = f"cli-{verdict}"
    request = restore_request(request_id)
    arguments = ["publish", "restore", "-t", ORDERS, "-l", "/lake/orders", "--savepoint", SAVEPOINT]
    arguments += ["--reason", "a bad load", "--requested-by", "ana", "--request-id", request_id]
    arguments += ["--wait", "--json", "--new", "--timeout", "60s" if callable(answer) else "1s"]

    def answer_it() -> None:
        if callable(answer):
            bus = KafkaBus({"bootstrap.servers": place.servers})
            part = bus_partition(bus, place.prefix)
            wait_for("the request", lambda: is_there(bus, part, request))
            publish(place.servers, place.prefix, started(request), answer(request))

    answering = threading.Thread(target=answer_it)
    answering.start()
    ended = call(*arguments, "-c", _settings(place, tmp_path))
    answering.join()

    shown = capsys.readouterr()
    last = json.loads(shown.out)
    assert (ended, last["event_id"], last["verdict"]) == (code, request_id, verdict)
    if callable(answer):
        assert "tidegate: RestoreStarted to 20261121041551845" in shown.err
        assert last["event"]["requested_by"] == "ana"


def bus_partition(bus: KafkaBus, prefix: str) -> list[Partition]:
    topic = f"{prefix}.requests"
    return [Partition(topic, number) for number in range(bus.partitions(topic))]


def is_there(bus: KafkaBus, parts: list[Partition], request: RestoreRequested) -> bool:
    sought = request.event_id.encode()
    return any(sought in (record.value or b"") for part in parts for record in bus.log(part))


def call(*arguments: str) -> int | str | None:
    from tidegate.cli import app  # noqa: PLC0415 - the library's tests above need no CLI

    with pytest.raises(SystemExit) as ended:
        app(list(arguments))
    return ended.value.code


def test_an_event_without_answer_cannot_be_waited_for(place: Place, tmp_path: Path) -> None:
    from tidegate.cli import app  # noqa: PLC0415

    file = tmp_path / "commit.json"
    file.write_text(commit(1).model_dump_json())
    arguments = ["publish", "event", "CommitCompleted", str(file), "--wait"]
    with pytest.raises(ConfigError, match="no service answers a CommitCompleted"):
        app([*arguments, "-c", _settings(place, tmp_path)], standalone_mode=False)
