"""A publisher works in a forked process too: gunicorn and multiprocessing fork writers."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys

import pytest

from support.kafka import create_topic
from tidegate.errors import DeliveryError
from tidegate.publisher import ConfirmedProducer, Message

FORKING = """
import gc, json, os, sys
from tidegate.publisher import Publisher
servers, prefix = sys.argv[1:]
order = {"table": "lake.sales.orders", "location": "/lake/orders"}
publisher = Publisher(servers, source="test", prefix=prefix)
publisher.commit(**order, instant="20260301100000001")
child = os.fork()
if child == 0:
    receipt = publisher.commit(**order, instant="20260301100000002")
    publisher.close()
    print(json.dumps(receipt), flush=True)
    del publisher
    gc.collect()  # what the end of the interpreter does too, in some runs
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(json.dumps(publisher.commit(**order, instant="20260301100000003")))
publisher.close()
print(os.waitstatus_to_exitcode(status))
"""


def test_what_a_fork_inherits_is_never_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its destruction would wait for locks that threads of the parent may have held."""

    def connections() -> int:
        gc.collect()
        return sum(type(thing).__name__ == "Connection" for thing in gc.get_objects())

    before = connections()
    producer = ConfirmedProducer({"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": 100})
    monkeypatch.setattr("tidegate.publisher.delivery.os.getpid", os.getppid)
    with pytest.raises(DeliveryError):
        producer.send([Message("x", b"k", b"v")])
    del producer

    assert connections() > before


@pytest.mark.kafka
def test_a_forked_process_publishes_and_ends_and_so_does_its_parent(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.commits")
    command = [sys.executable, "-c", FORKING, bootstrap_servers, topic_prefix]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    child, parent, code = done.stdout.splitlines()
    assert [json.loads(line)[2] for line in (child, parent)] == [1, 2]
    assert code == "7"
