"""Retries and dead letters: a limit for all services, and one of its own for each."""

from __future__ import annotations

import tomllib

import pytest
from pydantic import ValidationError

from support.samples import memory_bus
from tidegate.errors import DeadLetterFlood
from tidegate.publisher import Message
from tidegate.runtime.decider_loop import DeciderLoop
from tidegate.runtime.executor_loop import ExecutorLoop
from tidegate.runtime.patience import BRIEF, TABLE_WORK, Patience
from tidegate.services import DECIDERS, EXECUTORS, SERVICES, Loop, assemble
from tidegate.settings import Settings

COMMON = """
[warehouse]
roots = ["/lake"]
[services.retries]
attempts = 20
longest_wait_ms = 9000
[services.dead_letters]
most = 3
of = 5
"""


def settings(text: str) -> Settings:
    return Settings.model_validate(tomllib.loads(text))


def joined(name: str, text: str) -> DeciderLoop[object] | ExecutorLoop:
    loop = assemble(name, settings(text), memory_bus(*DECIDERS, partitions=1))
    assert isinstance(loop, DeciderLoop | ExecutorLoop)
    return loop


def patience_of(loop: Loop) -> Patience:
    assert isinstance(loop, DeciderLoop | ExecutorLoop)
    return loop._patience if isinstance(loop, DeciderLoop) else loop._execution.patience


@pytest.mark.parametrize("name", SERVICES)
def test_without_a_limit_an_executor_waits_long_and_a_decider_for_no_more_than_its_group(
    name: str,
) -> None:
    loop = joined(name, '[warehouse]\nroots = ["/lake"]')

    assert patience_of(loop) == (TABLE_WORK if name in EXECUTORS else BRIEF)
    assert (loop._intake.limit.window, loop._intake.limit.most) == (100, 50)


@pytest.mark.parametrize("name", SERVICES)
def test_a_limit_for_all_is_every_services(name: str) -> None:
    loop = joined(name, COMMON)

    assert patience_of(loop) == Patience(attempts=20, first=0.2, longest=9.0)
    assert (loop._intake.limit.window, loop._intake.limit.most) == (5, 3)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_have_a_limit_of_its_own_and_shares_the_rest(name: str) -> None:
    own = f"[services.{name}.retries]\nfirst_wait_ms = 50\n[services.{name}.dead_letters]\nmost = 1"
    told = settings(COMMON + own).services

    for each in SERVICES:
        limits = told.limits_of(each)
        assert (limits.retries.attempts, limits.retries.longest_wait_ms) == (20, 9000)
        assert limits.retries.first_wait_ms == (50 if each == name else None)
        assert (limits.most, limits.of) == (1 if each == name else 3, 5)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_stops_at_its_own_limit(name: str) -> None:
    topic = "tidegate.commands" if name in EXECUTORS else "tidegate.commits"
    topic = "tidegate.locks" if name == "reader-gate" else topic
    bus = memory_bus(*DECIDERS, partitions=1)
    bus.send([Message(topic, b"k", b"poison") for _ in range(4)])
    loop = assemble(name, settings(COMMON + f"[services.{name}.dead_letters]\nmost = 2"), bus)
    assert isinstance(loop, DeciderLoop | ExecutorLoop)

    with pytest.raises(DeadLetterFlood, match=rf"raise most in \[services.{name}.dead_letters\]"):
        loop.step(0)
    assert len(bus.records("tidegate.dead-letters")) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[services.restorre.retries]", "services.restorre", id="no service"),
        pytest.param("[services.retries]\ntries = 1", "services.retries.tries", id="no name"),
        pytest.param("[services.retries]\nattempts = 0", "services.retries.attempts", id="none"),
        pytest.param("[services.dead_letters]\nof = 1001", "dead_letters.of", id="too many"),
        pytest.param(
            "[services.dead_letters]\nmost = 9\n[services.cleaner.dead_letters]\nof = 8",
            "dead_letters of cleaner: of the last 8 messages 9 can't be dead letters",
            id="more than all",
        ),
    ],
)
def test_a_limit_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(text)
    assert said in str(caught.value).replace("\n  ", "\n")
