"""An exception that a signal handler raises leaves a publisher that works: Ctrl-C, a time limit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from support.kafka import create_topic

PROGRAM = """
import _thread, json, random, signal, sys, threading, time
from tidegate.publisher import Publisher

servers, prefix, seed, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
numbers, receipts, faults = iter(range(10**6)), [], []
armed, stop, go = False, threading.Event(), threading.Event()
publisher = Publisher(servers, source="test", prefix=prefix)


class TimeLimit(BaseException):
    pass


def on_signal(number, frame):
    global armed
    if armed:
        armed = False
        raise TimeLimit


def send(many):
    ids = [f"r{next(numbers)}" for _ in range(many)]
    events = [SavepointRequested(
        table="lake.sales.orders", location="/lake/orders", requested_by="ana", event_id=event_id,
        occurred_at=datetime.now(UTC), source="test") for event_id in ids]
    receipts.extend((r.partition, r.offset, r.event_id) for r in publisher.publish(*events))


def publish_on():
    try:
        while not stop.is_set():
            send(1)
    except BaseException as error:
        faults.append(repr(error))


def interrupt(main, rng):
    while not stop.is_set():
        go.wait(1)
        time.sleep(rng.random() ** 3 * 0.01)
        signal.pthread_kill(main, signal.SIGUSR1)


from datetime import UTC, datetime
from tidegate.events import SavepointRequested

send(1)
signal.signal(signal.SIGUSR1, on_signal)
rng = random.Random(seed)
threads = [threading.Thread(target=publish_on) for _ in range(3)]
for thread in threads:
    thread.start()
interrupter = threading.Thread(target=interrupt, args=(threading.get_ident(), rng))
interrupter.start()
waits = {"publish": lambda: send(1), "batch": lambda: send(200), "close": publisher.close}
hits = dict.fromkeys(waits, 0)
go.set()


def run_until_all_were_hit():
    global armed
    while min(hits.values()) < wanted and not faults:
        name = min(hits, key=hits.get)
        try:
            armed = True
            waits[name]()
            armed = False
        except BaseException as error:  # C code may put its own in the place of a TimeLimit
            if armed:
                raise
            hits[name] += 1


while min(hits.values()) < wanted and not faults:
    try:
        run_until_all_were_hit()
    except TimeLimit:  # between two of its lines
        armed = False
stop.set()
for thread in (interrupter, *threads):
    thread.join(20)
send(1)
began = time.monotonic()
publisher.close()
closed = time.monotonic() - began
until = time.monotonic() + 20
while (alive := _thread._count()) and time.monotonic() < until:  # a thread may end late
    time.sleep(0.05)
print(json.dumps([hits, faults, closed, alive, receipts]))
"""


def stored_ids(servers: str, topic: str, partitions: int) -> dict[tuple[int, int], str]:
    """The id of each event that is on a topic, by its partition and offset."""
    reader = {"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False}
    consumer, found = Consumer(reader), {}
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
        consumer.assign([TopicPartition(topic, partition, 0)])
        offset = 0
        while offset < end:
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None
            headers = dict(message.headers() or [])
            offset = (message.offset() or 0) + 1
            event_id = headers["ce_id"]
            assert isinstance(event_id, bytes)
            found[partition, offset - 1] = event_id.decode()
    consumer.close()
    return found


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_exception_out_of_a_signal_handler_hangs_a_publisher(
    bootstrap_servers: str, topic_prefix: str, seed: int
) -> None:
    topic = f"{topic_prefix}.requests"
    create_topic(bootstrap_servers, topic)
    command = [sys.executable, "-c", PROGRAM, bootstrap_servers, topic_prefix, str(seed), "100"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr

    hits, faults, closed, alive, receipts = json.loads(done.stdout)
    stored = stored_ids(bootstrap_servers, topic, 1)
    assert (min(hits.values()), faults, alive) == (100, [], 0)
    assert closed < 6
    wrong = [receipt for receipt in receipts if stored.get((receipt[0], receipt[1])) != receipt[2]]
    assert wrong == []
    assert len({event_id for *_, event_id in receipts}) == len(receipts)
