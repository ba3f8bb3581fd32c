"""A signal requests a stop, SIGHUP a new start; afterwards the process has its own handlers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from support.waiting import wait_for
from tidegate.errors import ConfigError, StopService
from tidegate.service.runner import run_services, stop_on_signals
from tidegate.service.settings import Settings

BOTH = (signal.SIGTERM, signal.SIGINT)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in BOTH]


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_sets_the_event_and_ends_nothing(number: signal.Signals) -> None:
    stop = threading.Event()
    with stop_on_signals(stop):
        os.kill(os.getpid(), number)

        assert stop.wait(60)


def test_the_previous_handlers_are_restored_even_after_a_fault() -> None:
    before = handlers()
    with pytest.raises(ConfigError), stop_on_signals(threading.Event()):
        raise ConfigError("no broker is named")

    assert handlers() == before


def test_services_that_ran_in_this_process_leave_its_handlers_as_they_were() -> None:
    before = handlers()
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "127.0.0.1:9"}})
    with pytest.raises(ConfigError, match="unknown service 'nonsense'"):
        run_services(["nonsense"], settings, threading.Event())

    assert handlers() == before


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The commands that this process was replaced by: none is."""
    found: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _program, command: found.append(command))
    monkeypatch.setattr(sys, "stdin", None)
    hangup = signal.getsignal(signal.SIGHUP)
    yield found
    signal.signal(signal.SIGHUP, hangup)


def test_a_hangup_starts_the_process_again_with_the_same_command(started: list[list[str]]) -> None:
    stop = threading.Event()
    with stop_on_signals(stop, lambda: None):
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(60)

    assert started == [sys.orig_argv]
    # a second one must not end the process before it has its handlers again
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_work_that_did_not_end_in_time_keeps_no_process_from_starting_again(
    started: list[list[str]],
) -> None:
    stop = threading.Event()
    with stop_on_signals(stop, lambda: None):
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(60)
        raise StopService("it still ran a command")

    assert started == [sys.orig_argv]


def test_a_stop_after_a_hangup_counts(started: list[list[str]]) -> None:
    stop = threading.Event()
    with stop_on_signals(stop, lambda: None):
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)

    assert started == []


def test_settings_that_are_invalid_stop_nothing(
    started: list[list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    stop, results = threading.Event(), iter(["[alarms] is not a list", ""])

    def read_settings() -> None:
        if fault := next(results):
            raise ConfigError(fault)

    with stop_on_signals(stop, read_settings):
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for("the fault", lambda: "[alarms] is not a list" in caplog.text)
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(60)

    assert started == [sys.orig_argv]


@pytest.mark.usefixtures("started")
def test_on_a_terminal_a_hangup_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGHUP)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with stop_on_signals(threading.Event(), lambda: None):
        assert signal.getsignal(signal.SIGHUP) is before
