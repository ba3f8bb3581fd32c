"""A signal requests a stop, SIGHUP a new start; afterwards the process has its own handlers."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.samples import memory_bus
from support.waiting import wait_for
from tidegate.errors import ConfigError, StopService
from tidegate.service.assembly import SERVICES
from tidegate.service.runner import check_startable, run_services, stop_on_signals
from tidegate.service.settings import Settings
from tidegate.signatures import SigningKey

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


@pytest.mark.parametrize("fault", [ConfigError, ModuleNotFoundError])
def test_settings_that_are_invalid_stop_nothing(
    fault: type[Exception], started: list[list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    stop, results = threading.Event(), iter(["[alarms] is not a list", ""])

    def read_settings() -> None:
        if message := next(results):
            raise fault(message)

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


@pytest.mark.parametrize(
    ("section", "mode", "fault"),
    [
        pytest.param(
            {"warehouse": {"roots": ["lake/x"]}, "security": {"keys": []}},
            *(0o600, "lake/x"),
            id="a relative root",
        ),
        pytest.param(
            {"cleaning": {"confirm_with": "metastore"}, "security": {"keys": []}},
            *(0o600, "none is configured"),
            id="no bridge",
        ),
        pytest.param({"security": {"keys": []}}, 0o600, "", id="any key while none is listed"),
        pytest.param({}, 0o600, "not in", id="its own key is not listed"),
        pytest.param({"security": {"keys": []}}, 0o644, "chmod", id="a key that others may read"),
    ],
)
def test_a_hangup_tries_all_that_a_start_needs_and_joins_no_group(
    section: dict[str, object], mode: int, fault: str, tmp_path: Path
) -> None:
    own, other = tmp_path / "own.pem", SigningKey.generate().public_pem
    own.write_bytes(SigningKey.generate().private_pem)
    own.chmod(mode)
    listed = {"name": "ana", "public_key": other, "roles": ["worker", "coordinator"]}
    values = {"warehouse": {"roots": [str(tmp_path)]}, "security": {"keys": [listed]}, **section}
    security = {"sign_with": own, **values["security"]}  # type: ignore[dict-item]
    settings, bus = Settings.model_validate({**values, "security": security}), memory_bus()
    joined: list[object] = []
    bus.subscribe = lambda *args, **_: joined.append(args)  # type: ignore[method-assign,assignment]

    if fault:
        with pytest.raises(ConfigError, match=fault):
            check_startable(list(SERVICES), settings, bus, settings)
    else:
        check_startable(list(SERVICES), settings, bus, settings)

    assert joined == []


def test_a_hangup_with_a_taken_port_is_refused_and_its_own_port_is_not() -> None:
    names = ["hudi-bridge"]

    def with_ports(metrics: int | None, callbacks: int | None) -> Settings:
        hudi = {"tables": ["/lake/*"], "catalog": "lake", "callback_port": callbacks}
        return Settings.model_validate(
            {
                "kafka": {"bootstrap.servers": "127.0.0.1:9"},
                "bridge": {"hudi": hudi},
                "monitoring": {"port": metrics},
            }
        )

    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("", 0)) as free:
        port, other = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        for metrics, callbacks in ((port, None), (None, port), (other, other)):
            with pytest.raises(
                ConfigError, match=r"^127\.0\.0\.1:\d+ can't be listened on: Address"
            ):
                check_startable(
                    names, with_ports(metrics, callbacks), memory_bus(), with_ports(0, 0)
                )
        check_startable(names, with_ports(port, 0), memory_bus(), with_ports(port, 0))
        check_startable(names, with_ports(0, other), memory_bus(), with_ports(port, 0))
