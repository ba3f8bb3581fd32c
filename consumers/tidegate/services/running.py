"""Run services until a signal, or until one of them must stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from queue import SimpleQueue

from confluent_kafka import KafkaException

from tidegate.errors import TransientError
from tidegate.runtime.kafka import KafkaBus
from tidegate.runtime.signals import stopped_by_signals
from tidegate.services.assembly import Loop, assemble
from tidegate.settings import Settings

log = logging.getLogger(__name__)


def run_services(names: Sequence[str], settings: Settings, stop: threading.Event) -> None:
    """Run each service on a thread of its own until `stop` is set or SIGTERM or SIGINT arrives.

    Raises:
        ConfigError: a service can't be put together; none was started.
        TransientError: no broker answers; none was started.
        StopService: one must not go on; the others were stopped too. A supervisor starts all again.
    """
    with stopped_by_signals(stop):
        _run_all(names, settings, stop)


def _run_all(names: Sequence[str], settings: Settings, stop: threading.Event) -> None:
    session = {"session.timeout.ms": settings.services.session_timeout_ms}
    bus = KafkaBus(settings.connection(), session)
    loops = _assembled(names, settings, bus)
    faults: SimpleQueue[BaseException] = SimpleQueue()
    threads = [
        threading.Thread(target=_run, args=(name, loop, stop, faults), name=name)
        for name, loop in loops.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bus.close()
    if not faults.empty():
        raise faults.get()


def _assembled(names: Sequence[str], settings: Settings, bus: KafkaBus) -> dict[str, Loop]:
    """Put all of them together or none: a group that was joined already is left again."""
    loops: dict[str, Loop] = {}
    try:
        for name in names:
            loops[name] = assemble(name, settings, bus)
    except BaseException as error:
        for loop in loops.values():
            loop.close()
        if isinstance(error, KafkaException):
            raise TransientError(f"no Kafka broker answers: {error.args[0].str()}") from error
        raise
    return loops


def _run(name: str, loop: Loop, stop: threading.Event, faults: SimpleQueue[BaseException]) -> None:
    try:
        try:
            loop.run(stop)
        finally:  # also after a fault: what has not begun must not begin any more
            loop.close()
        log.info("%s has left its group", name)
    except BaseException as error:  # a thread hands its fault to the process
        log.exception("%s must stop", name)
        faults.put(error)
        stop.set()
