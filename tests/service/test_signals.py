"""A signal requests a stop; afterwards the process has its own signal handlers again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tidegate.errors import ConfigError
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
