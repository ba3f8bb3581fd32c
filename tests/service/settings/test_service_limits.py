"""Retries and dead letters: a limit for all services, and one of its own for each."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from support.samples import memory_bus
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import ConfigError
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.retry import BROKER_RETRIES, TABLE_RETRIES, RetryPolicy
from tidegate.service.assembly import SERVICES, Loop, assemble, instance_ids
from tidegate.service.catalogue import EXECUTORS
from tidegate.service.settings import Settings

WAREHOUSE = f'[warehouse]\nroots = ["{Path(__file__).parent}"]\n'
COMMON = f"""{WAREHOUSE}
[services.retries]
attempts = 20
longest_wait_ms = 9000
[services.dead_letters]
max_failures = 3
window = 5
"""


def settings(text: str) -> Settings:
    return Settings.model_validate(tomllib.loads(text))


def joined(name: str, text: str) -> CoordinatorLoop | ExecutorLoop:
    loop = assemble(name, settings(text), memory_bus(partitions=1))
    assert isinstance(loop, CoordinatorLoop | ExecutorLoop)
    return loop


def _limit_of(loop: CoordinatorLoop | ExecutorLoop) -> tuple[int, int]:
    limit = loop._dead_letters.limit
    return limit.window, limit.max_failures


def patience_of(loop: Loop) -> RetryPolicy:
    assert isinstance(loop, CoordinatorLoop | ExecutorLoop)
    return loop._retries if isinstance(loop, CoordinatorLoop) else loop._runner.retries


@pytest.mark.parametrize("name", SERVICES)
def test_without_a_limit_an_executor_waits_long_and_a_decider_for_no_more_than_its_group(
    name: str,
) -> None:
    loop = joined(name, WAREHOUSE)

    assert patience_of(loop) == (TABLE_RETRIES if name in EXECUTORS else BROKER_RETRIES)
    assert _limit_of(loop) == (100, 50)


@pytest.mark.parametrize("name", SERVICES)
def test_a_limit_for_all_is_every_services(name: str) -> None:
    loop = joined(name, COMMON)

    assert patience_of(loop) == RetryPolicy(attempts=20, first=0.2, longest=9.0)
    assert _limit_of(loop) == (5, 3)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_have_a_limit_of_its_own_and_shares_the_rest(name: str) -> None:
    own = f"[services.{name}.retries]\nfirst_wait_ms = 50\n"
    own += f"[services.{name}.dead_letters]\nmax_failures = 1"
    shown = settings(COMMON + own).services

    for service in SERVICES:
        limits = shown.limits_of(service)
        assert (limits.retries.attempts, limits.retries.longest_wait_ms) == (20, 9000)
        assert limits.retries.first_wait_ms == (50 if service == name else None)
        assert (limits.dead_letters.max_failures, limits.dead_letters.window) == (
            1 if service == name else 3,
            5,
        )


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_its_own_limit_and_no_invalid_message_counts(name: str) -> None:
    topic = "tidegate.tasks" if name in EXECUTORS else "tidegate.commits"
    bus = memory_bus(partitions=1)
    bus.send([Message(topic, b"k", b"poison") for _ in range(4)])
    loop = assemble(
        name, settings(COMMON + f"[services.{name}.dead_letters]\nmax_failures = 2"), bus
    )
    assert isinstance(loop, CoordinatorLoop | ExecutorLoop)

    loop.step(0)
    assert _limit_of(loop) == (5, 2)
    assert len(bus.records("tidegate.dead-letters")) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[services.restorre.retries]", "services.restorre", id="no service"),
        pytest.param("[services.retries]\ntries = 1", "services.retries.tries", id="no name"),
        pytest.param("[services.retries]\nattempts = 0", "services.retries.attempts", id="none"),
        pytest.param("[services.dead_letters]\nof = 1001", "dead_letters.of", id="too many"),
        pytest.param(
            "[services.dead_letters]\nmax_failures = 9\n"
            "[services.cleaner.dead_letters]\nwindow = 8",
            "dead_letters of cleaner: max_failures (9) exceeds window (8)",
            id="more than all",
        ),
    ],
)
def test_a_limit_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(text)
    assert said in str(caught.value).replace("\n  ", "\n")


def test_a_process_is_a_static_member_under_the_id_of_its_service_or_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTNAME", "gate-0")
    file = tmp_path / "tidegate.toml"
    file.write_text('[services]\ninstance_id = "${HOSTNAME}"\n[services.cleaner]\ninstance_id="c"')
    services = ["coordinator", "cleaner"]

    assert instance_ids(Settings.load(file), services) == {
        "tidegate.coordinator": "tidegate.coordinator.gate-0",
        "tidegate.cleaner": "tidegate.cleaner.c",
    }
    monkeypatch.setenv("TIDEGATE_SERVICES__INSTANCE_ID", "other")
    assert instance_ids(Settings.load(file), services[:1]) == {
        "tidegate.coordinator": "tidegate.coordinator.other"
    }
    assert instance_ids(Settings(), services) == {}


def test_an_instance_id_that_kafka_does_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_SERVICES__INSTANCE_ID", "a b")
    with pytest.raises(ConfigError, match=r"services\.instance_id"):
        Settings.load()
