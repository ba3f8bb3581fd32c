"""Runs services until a signal arrives or one of them fails."""

from __future__ import annotations

import errno
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from queue import SimpleQueue
from typing import Any, Final, NoReturn, cast

import structlog
from confluent_kafka import KafkaException

from tidegate.bridges.position import HUDI_BRIDGE, METASTORE_BRIDGE
from tidegate.errors import ConfigError, StopService, TransientError
from tidegate.errors.commands import command_line
from tidegate.events.topics import Role
from tidegate.monitoring.catalog import BRIDGE_METRICS
from tidegate.monitoring.observed import ProcessMonitoring
from tidegate.runtime.bus import Bus
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import SERVICES, Loop, assemble, instance_ids
from tidegate.service.bridge_assembly import BRIDGES
from tidegate.service.settings import Settings
from tidegate.service.topics import require_declared_topics

log = logging.getLogger(__name__)
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_CHECK_SECONDS: Final = 0.5
_REPORT_SECONDS: Final = 2.0


@contextmanager
def stop_on_signals(
    stop: threading.Event, read_settings: Callable[[], object] | None = None
) -> Generator[None]:
    """Set `stop` on SIGTERM and SIGINT while the block runs; restore the handlers afterwards.

    With `read_settings`, SIGHUP reads the settings. If that raises nothing, `stop` is set, and at
    the end of the block this process starts again in place; otherwise the fault is logged. On a
    terminal SIGHUP still ends the process, because it means that the terminal is gone.

    Python allows this in the main thread only.
    """
    asked, again = threading.Event(), threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        again.clear()
        stop.set()

    handlers: dict[signal.Signals, Callable[[int, object], None]] = dict.fromkeys(
        _ENDING, on_signal
    )
    if read_settings is not None and not (sys.stdin and sys.stdin.isatty()):
        handlers[signal.SIGHUP] = lambda _number, _frame: asked.set()
        watched = (read_settings, asked, again, stop)
        # reading takes a moment and logs: not for a signal handler
        threading.Thread(target=_read_when_asked, args=watched, daemon=True).start()
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    except StopService as error:
        if not again.is_set():
            raise
        log.warning("%s", error)
    finally:
        if again.is_set():  # another SIGHUP until the new handler is in place would be the end
            before[signal.SIGHUP] = signal.SIG_IGN
        for number, handler in before.items():
            signal.signal(number, handler)
    if again.is_set():
        logging.shutdown()
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - itself


def _read_when_asked(
    read_settings: Callable[[], object],
    asked: threading.Event,
    again: threading.Event,
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        if not asked.wait(_CHECK_SECONDS):
            continue
        asked.clear()
        try:
            read_settings()
        except Exception as error:  # noqa: BLE001 - whatever it is, this process works on
            log.error("SIGHUP: it could not start with the settings, nothing is changed: %s", error)  # noqa: TRY400
            continue
        if not stop.is_set():
            log.info("SIGHUP: this process starts again with the settings as they are now")
            again.set()
            stop.set()


def run_services(
    names: Sequence[str],
    settings: Settings,
    stop: threading.Event,
    read_settings: Callable[[], Settings] | None = None,
) -> None:
    """Run services and bridges, each on its thread, until `stop` is set or a signal arrives.

    With `read_settings`, SIGHUP reads the settings, and starts the process again in place if the
    services can start with them.

    The settings' `stop_seconds` after that, the process has ended, whatever its services do: those
    that wait for a broker that is away are left where they are. Where a task in Spark or a thread
    that never returns holds up even the end of the interpreter, it ends by force. The exit code is
    1 in both cases. Nothing that is not done was acknowledged, so another process does it.

    Raises:
        ConfigError: a service can't be built, or a topic is missing; none was started.
        TransientError: no broker answers; none was started.
        StopService: a service had to stop, and the others were stopped too; a supervisor may
            start all of them again. Also: a service was not done when the time had passed.
    """
    ended = threading.Event()

    def check() -> None:
        if read_settings is not None:
            now = read_settings()
            check_startable(names, now, _connected(names, now), settings)

    with stop_on_signals(stop, check if read_settings else None):
        watched = (stop, ended, settings.services.stop_seconds)
        watch = threading.Thread(target=_end_in_time, args=watched, name="stop", daemon=True)
        watch.start()
        try:
            _run_all(names, settings, stop)
        except _StillRunningError:
            raise  # `ended` stays unset: the end of the interpreter may wait for what runs
        except BaseException:
            ended.set()
            watch.join(2 * _CHECK_SECONDS)  # the fault is the last that people read, not its notice
            raise
        ended.set()


class _StillRunningError(StopService):
    """Something still runs on daemon threads."""


def _end_in_time(stop: threading.Event, ended: threading.Event, seconds: float) -> None:
    """End the process by force if it still runs `seconds` after `stop` was set."""
    while not stop.wait(_CHECK_SECONDS):
        if ended.is_set():
            return
    # the reader of a pipe may have stopped, and then a line of the log is never written
    notice = "stopping; this process has ended in %.0f s at the latest"
    threading.Thread(target=log.info, args=(notice, seconds), daemon=True).start()
    if ended.wait(seconds):
        return
    report = threading.Thread(target=_report_what_runs, args=(seconds,), daemon=True)
    report.start()
    report.join(_REPORT_SECONDS)
    os._exit(1)  # an orderly exit would wait for what runs


def _report_what_runs(seconds: float) -> None:
    names = ", ".join(sorted(thread.name for thread in threading.enumerate()))
    log.error(
        "not stopped %.0f s after the stop was requested: the process ends by force. Nothing"
        " unfinished was acknowledged; it is done again after the next start. Still running: %s",
        *(seconds, names),
    )
    faulthandler.dump_traceback(sys.stderr)
    sys.stderr.flush()


class _Startable(Exception):  # noqa: N818 - states a finding
    """A service got as far as to join its group."""


class _TrialBus:
    """A bus without members: the running process is the member of its groups."""

    def __init__(self, bus: Bus) -> None:
        """Take the bus that is asked."""
        self._bus = bus

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the other methods of the bus
        return getattr(self._bus, name)

    def subscribe(self, *_: object, **_options: object) -> NoReturn:
        """End the trial."""
        raise _Startable


def check_startable(names: Sequence[str], settings: Settings, bus: Bus, running: Settings) -> None:
    """Build services and bridges up to where they join their groups; raises as `run_services`.

    Their ports must be free, or those of the running process, which has these `running` settings.
    """
    own = {port for _, port in _addresses(names, running)}
    with ExitStack() as stack:
        for host, port in _addresses(names, settings):
            try:
                stack.enter_context(socket.create_server((host, port)))
            except OSError as error:
                if port not in own or error.errno != errno.EADDRINUSE:
                    what = f"{host}:{port} can't be listened on: {error.strerror}"
                    raise ConfigError(what) from error
    if (hudi := settings.bridge.hudi) is not None:  # the port is that of the running process
        bridge = settings.bridge.model_copy(
            update={"hudi": hudi.model_copy(update={"callback_port": None})}
        )
        settings = settings.model_copy(update={"bridge": bridge})
    for name in names:
        with suppress(_Startable):
            _assemble_all([name], settings, cast("Bus", _TrialBus(bus)), None)


def _addresses(names: Sequence[str], settings: Settings) -> list[tuple[str, int]]:
    """Where a process listens, but for ports that the system chooses."""
    found = [(settings.monitoring.host, settings.monitoring.port)]
    if HUDI_BRIDGE in names and (hudi := settings.bridge.hudi):
        found.append((hudi.callback_host, hudi.callback_port))
    return [(host, port) for host, port in found if port]


def _connected(names: Sequence[str], settings: Settings) -> KafkaBus:
    session = {"session.timeout.ms": settings.services.session_timeout_ms}
    bus = KafkaBus(settings.connection(), session, instance_ids(settings, names))
    if any(name in SERVICES or name in BRIDGES for name in names):  # assembly refuses others
        bus.require_connection()
    roles = [Role.BRIDGES if name in BRIDGES else name for name in names]
    require_declared_topics(settings.connection(), settings.topics, roles)
    return bus


def _run_all(names: Sequence[str], settings: Settings, stop: threading.Event) -> None:
    bus = _connected(names, settings)
    with ExitStack() as stack:
        monitoring, wanted = None, settings.monitoring
        if wanted.port is not None or wanted.traces:
            more = BRIDGE_METRICS if METASTORE_BRIDGE in names else ()
            monitoring = ProcessMonitoring(traces=wanted.traces, more=more)
        if monitoring and wanted.port is not None:
            stack.enter_context(monitoring.serve(wanted.host, wanted.port, settings.shown()))
        _run_loops(_assemble_all(names, settings, bus, monitoring), bus, stop, settings)


def _run_loops(
    loops: Mapping[str, Loop], bus: KafkaBus, stop: threading.Event, settings: Settings
) -> None:
    # the rest of the time is for the end of the interpreter
    stop_seconds = 0.9 * settings.services.stop_seconds
    log.info(
        "tidegate %s runs %s on %s, topics %s.*; SIGTERM or Ctrl-C stops it. Next: %s",
        version("tidegate"),
        ", ".join(loops),
        settings.connection()["bootstrap.servers"],
        settings.topics.prefix,
        command_line("status"),
    )
    faults: SimpleQueue[BaseException] = SimpleQueue()
    threads = [
        threading.Thread(target=_run, args=(name, loop, stop, faults), name=name, daemon=True)
        for name, loop in loops.items()
    ]
    for thread in threads:
        thread.start()
    if stuck := _join(threads, stop, stop_seconds):
        raise _StillRunningError(
            f"{', '.join(stuck)} still waited for the broker when the time to stop had passed."
            " Unfinished work was not acknowledged: it is done after the next start"
        )
    bus.close()
    raised = [faults.get() for _ in range(faults.qsize())]
    for fault in (*(error for error in raised if isinstance(error, _StillRunningError)), *raised):
        raise fault


def _join(threads: Sequence[threading.Thread], stop: threading.Event, seconds: float) -> list[str]:
    """Wait for threads, after `stop` at most `seconds`; return the names of running ones."""
    for thread in threads:
        while thread.is_alive() and not stop.is_set():
            thread.join(_CHECK_SECONDS)
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread.name for thread in threads if thread.is_alive()]


def _assemble_all(
    names: Sequence[str], settings: Settings, bus: Bus, monitoring: ProcessMonitoring | None
) -> dict[str, Loop]:
    """Build all of them or none: after a fault, groups that were joined are left again."""
    loops: dict[str, Loop] = {}
    try:
        for name in names:
            make = BRIDGES.get(name, partial(assemble, name))
            loops[name] = make(settings, bus, monitoring)
    except BaseException as error:
        for loop in loops.values():
            loop.close()
        if isinstance(error, KafkaException):
            raise TransientError(f"no Kafka broker answers: {error.args[0].str()}") from error
        raise
    return loops


def _close(name: str, loop: Loop) -> None:
    all_done = loop.close()
    log.info("%s has left its group", name)
    if all_done is False:
        raise _StillRunningError(
            f"{name} still ran a command when the time to stop had passed. It was not acknowledged:"
            " it runs again after the next start"
        )


def _run(name: str, loop: Loop, stop: threading.Event, faults: SimpleQueue[BaseException]) -> None:
    structlog.contextvars.bind_contextvars(service=name)  # this thread runs nothing else
    try:
        try:
            loop.run(stop)
        finally:  # after a fault too: no further command may start
            _close(name, loop)
    except BaseException as error:  # the main thread raises it
        log.exception("%s failed; all services of this process stop", name)
        faults.put(error)
        stop.set()
