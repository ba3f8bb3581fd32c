"""Messages to people: what is sent, how often, and what happens while an address takes none."""

from __future__ import annotations

import logging

import pytest
from apprise.plugins.custom_json import NotifyJSON
from pydantic import SecretStr

from support.deployment_events import ORDERS, restore_request
from support.samples import NOON, ended, task_of
from support.watching import webhook
from tidegate.errors import ConfigError
from tidegate.events import TaskEnd, UnknownTableReleased
from tidegate.ops.notifications import Notifications

GAVE_UP = ended(
    task_of(restore_request()), end=TaskEnd.DEAD_LETTERED, message="Permission denied: '/lake/o/1'"
)


def alarm(table: str = ORDERS) -> UnknownTableReleased:
    common = {"table": table, "location": "/lake/o", "occurred_at": NOON, "source": "coordinator"}
    more = {"caused_by": "l1", "since": NOON, "limit_seconds": 60, "published_by": "etl"}
    return UnknownTableReleased.model_validate(common | more | {"message": "no vacuum"})


def address(port: int) -> SecretStr:
    return SecretStr(f"json://127.0.0.1:{port}/")


def test_a_task_that_is_given_up_is_sent_with_its_cause() -> None:
    with webhook() as (port, posted):
        notifications = Notifications([address(port)], "tidegate")
        notifications.take(GAVE_UP, half_way=True)
        notifications.take(GAVE_UP, half_way=False)
        notifications.take(ended(task_of(restore_request())), half_way=True)  # as it should
        notifications.send()
        notifications.send()

    [message] = posted
    half_way, other = message.splitlines()
    text = f"{ORDERS}: TaskEnded: task 1 has ended: dead_lettered: Permission denied: '/lake/o/1'"
    command = f". See: tidegate explain {ORDERS}"
    assert half_way == f"{text}; the table takes no writes until its restore is complete{command}"
    assert other == text + command


def test_a_message_about_a_table_that_takes_no_writes_is_a_failure_and_any_other_a_warning() -> (
    None
):
    with webhook() as (gone, _):
        pass
    with webhook(field="type") as (port, posted):
        notifications = Notifications([address(port), address(gone)], "tidegate")
        taken = (GAVE_UP, True), (GAVE_UP, False), (alarm(), True), (alarm(), False)
        for event, half_way in taken:
            notifications.take(event, half_way=half_way)
            notifications.send()
        with webhook(gone, field="type") as (_, late):
            notifications.send()

    assert posted == ["failure", "warning", "warning", "warning"]
    assert late == ["failure"]


def test_a_flood_of_dead_letters_is_a_message_every_five_minutes() -> None:
    now = 0.0
    with webhook() as (port, posted):
        notifications = Notifications([address(port)], "tidegate", lambda: now)
        for seconds in range(0, 601, 15):
            now = float(seconds)
            notifications.take_dead_letters("message", 1)
            notifications.send()

    assert [message.partition(",")[0] for message in posted] == [
        "1 new dead letter",
        "20 new dead letters",
        "20 new dead letters",
    ]


def test_an_address_that_is_away_gets_its_messages_later_and_no_other_gets_them_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with webhook() as (gone, _):
        pass
    with webhook() as (port, posted):
        notifications = Notifications([address(gone), address(port)], "tidegate")
        for table in ("lake.s.a", "lake.s.b"):
            notifications.take(alarm(table), half_way=False)
            notifications.send()
        with webhook(gone) as (_, late):
            notifications.send()
            notifications.send()

    assert [message.partition(":")[0] for message in posted] == ["lake.s.a", "lake.s.b"]
    assert late == ["\n".join(posted)]
    ours = [it.getMessage() for it in caplog.records if it.name == "tidegate.ops.notifications"]
    assert ours == ["[monitoring] notify: entry 1 takes no messages; they are sent when it does"]
    assert sum(it.name == "apprise" and it.levelno >= logging.WARNING for it in caplog.records) == 1


def test_a_message_has_fifty_lines_at_most() -> None:
    with webhook() as (port, posted):
        notifications = Notifications([address(port)], "tidegate")
        for number in range(200):
            notifications.take(alarm(f"lake.s.t{number}"), half_way=False)
        notifications.send()

    lines = posted[0].splitlines()
    assert len(lines) == 50
    assert lines[0] == "more messages: see tidegate status"
    assert lines[1].startswith("lake.s.t151: ")
    assert lines[-1].startswith("lake.s.t199: ")


def test_what_is_too_long_for_an_address_is_sent_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would refuse all that has collected, together with everything that follows."""
    monkeypatch.setattr(NotifyJSON, "body_maxlen", 2_000)
    with webhook() as (port, posted):
        notifications = Notifications([address(port)], "tidegate")
        for number in range(40):
            notifications.take(alarm(f"lake.s.t{number:02}"), half_way=False)
        notifications.send()

    assert len(posted) > 1
    assert max(map(len, posted)) <= 2_000
    assert "".join(posted).count("UnknownTableReleased") == 40


def test_an_address_that_cannot_be_notified_is_an_error_without_its_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConfigError, match="notify: entry 1") as caught:
        Notifications([SecretStr("pigeon://t0ken")], "tidegate")

    assert "t0ken" not in str(caught.value) + caplog.text
    assert not logging.getLogger("apprise").disabled
