"""A changelog's write without an answer: it is finished once the broker is back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.changelogs import OpenPartition
from support.kafka import create_topic
from tidegate.embedded import EmbeddedBroker
from tidegate.errors import TransientError
from tidegate.runtime.kafka import fenced_producer
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = [pytest.mark.kafka, pytest.mark.full]
Step = Callable[[float], None]


def write_while_away(
    memory: OpenPartition, pid: int, value: bytes, before: Callable[[], object]
) -> None:
    """The broker is frozen when its records are sent, and gives no answer to two attempts."""
    with pytest.MonkeyPatch.context() as patch:
        persist = fenced_producer._persist

        def freeze_first(step: Step, seconds: float) -> None:
            patch.setattr(fenced_producer, "_persist", persist)
            before()
            os.kill(pid, signal.SIGSTOP)
            persist(step, seconds)

        patch.setattr(fenced_producer, "_persist", freeze_first)
        patch.setattr(fenced_producer, "_WAIT", 1.0)
        try:
            for _ in range(2):  # the second one goes on with the commit of the first
                with pytest.raises(TransientError):
                    memory.write([(b"a", value)])
        finally:
            os.kill(pid, signal.SIGCONT)
    memory.write([(b"a", value)])


def test_a_write_without_an_answer_is_repeated_and_stops_no_service(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        assert broker.pid is not None
        create_topic(broker.bootstrap_servers, "memory")
        bus = KafkaBus({"bootstrap.servers": broker.bootstrap_servers})
        memory = OpenPartition(bus, "memory")
        memory.write([(b"a", b"1")])
        write_while_away(memory, broker.pid, b"2", before=lambda: None)
        assert OpenPartition(bus, "memory").read()[-1] == (b"a", b"2")
        memory = OpenPartition(bus, "memory")
        write_while_away(memory, broker.pid, b"3", before=lambda: memory.producer.flush(30))
        memory.write([(b"b", b"4")])

        read = [value for _, value in OpenPartition(bus, "memory").read()]
        bus.close()
    assert list(dict.fromkeys(read)) == [b"1", b"2", b"3", b"4"]
    assert read == sorted(read, key=lambda value: value or b"")
