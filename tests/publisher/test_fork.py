"""A publisher works in a forked process too: gunicorn and multiprocessing fork writers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.kafka import create_topic

FORKING = """
import json, os, sys
from tidegate.publisher import Publisher
servers, prefix = sys.argv[1:]
order = {"table": "lake.sales.orders", "location": "/lake/orders"}
publisher = Publisher(servers, said_by="test", prefix=prefix)
publisher.commit(**order, instant="20260301100000001")
child = os.fork()
if child == 0:
    receipt = publisher.commit(**order, instant="20260301100000002")
    publisher.close()
    print(json.dumps(receipt), flush=True)
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(json.dumps(publisher.commit(**order, instant="20260301100000003")))
publisher.close()
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.kafka
def test_a_forked_process_publishes_and_ends_and_so_does_its_parent(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.commits")
    command = [sys.executable, "-c", FORKING, bootstrap_servers, topic_prefix]

    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)

    child, parent, code = done.stdout.splitlines()
    assert [json.loads(each)[2] for each in (child, parent)] == [1, 2]
    assert code == "7"
