"""A Kafka client, the one thread that uses it, and the messages that it has received."""

from __future__ import annotations

import _thread
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

Job = Callable[[Producer | None], None]
"""Sends messages; without a producer the connection was closed before the job ran."""
POLL_SECONDS: Final = 0.01
"""The longest time that a call's messages wait for the reports of other calls."""
CHECK_SECONDS: Final = 1.0
"""How often a waiting call checks that the thread is alive."""


def codes(names: str) -> frozenset[int]:
    """The codes of librdkafka's errors with these names; its local ones have underscores."""
    return frozenset(getattr(KafkaError, name) for name in names.split())


_AWAY: Final = {KafkaError._RESOLVE, KafkaError._TRANSPORT}  # noqa: SLF001 - librdkafka's own codes
_CAUSE: Final = re.compile(
    r"(?:\S+/\S+: )?(?:Connect to \S+ failed: )?(?P<cause>.*?)(?: \(after .*\))?", re.DOTALL
)
"""`HOST:PORT/bootstrap: Connect to ADDRESS failed: CAUSE (after 0ms in state CONNECT)`."""


class BrokerFaults:
    """What a client reports of its connections, between its calls.

    Apart from `Connection`: a cycle would leave the client's end to the garbage collector.
    """

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Take the client's settings: what is reported names its brokers."""
        self.servers = config.get("bootstrap.servers", "")
        self.denied: KafkaError | None = None
        """The last answer by which the broker denied access."""
        self.is_new = False
        """Whether messages wait that will be denied too."""
        self.away: str | None = None
        """Why no broker answers, if that is so; the client does not report the end of it."""

    def record(self, error: KafkaError) -> None:
        """Take a report; the client's `error_cb`."""
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self.denied, self.is_new = error, True
        elif error.code() in _AWAY:
            self.away = no_answer(self.servers, error)

    def explained(self, error: KafkaException) -> str | None:
        """Why a call reached no broker, in a sentence; None if it failed for another reason."""
        fault: KafkaError = error.args[0]
        if self.away is None and fault.code() in _AWAY:
            return no_answer(self.servers, fault)
        return self.away


def no_answer(servers: object, error: KafkaError) -> str:
    """A sentence for a client that reaches no broker: the address, the cause, the setting."""
    cause = _cause(error)
    if "SSL" in cause or "PLAINTEXT" in cause:
        return f"no connection to {servers}: {cause}. Correct security.protocol or ssl.*"
    return (
        f"no broker answers at {servers}: {cause}. Correct the address (bootstrap.servers), or"
        " start the broker"
    )


def login_refused(servers: object, error: KafkaError) -> str:
    """A sentence for a broker that refuses the login: the address, the cause, the settings."""
    return f"{servers} refuses the login: {_cause(error)}. Correct security.protocol or sasl.*"


def _cause(error: KafkaError) -> str:
    found = _CAUSE.fullmatch(error.str())
    return (found["cause"] if found else error.str()).rstrip("?.: ")


def arrived(consumer: Consumer, limit: int, seconds: float) -> Sequence[Message]:
    """Wait for a message, then return it with those that arrived together; may be empty.

    `Consumer.consume` alone waits for its complete time-out unless it reaches its limit, so a
    caller that reads two records with it waits as long as for a thousand.
    """
    first = consumer.poll(seconds)
    if first is None:
        return ()
    return [first, *consumer.consume(limit - 1, 0)] if limit > 1 else [first]


class Connection:
    """A client, and the one thread that uses it: it sends, polls, and ends the client.

    Signal handlers run in the main thread. There, an exception that a handler raises would stop a
    callback, turn into a TypeError in `Producer.produce`, stay pending after the end of a client,
    or leave a lock of Python's `threading` taken forever. So no other thread touches the client,
    and the threads communicate only through `SimpleQueue`s, whose calls are atomic.
    """

    def __init__(self, config: Mapping[str, str | int | bool]) -> None:
        """Take the settings; the client and the thread start when they are needed."""
        self.process = os.getpid()
        self.is_closed = False
        self.faults = BrokerFaults(config)
        self._config = config
        self._producer: Producer | None = None
        self._successors: dict[str, Connection] = {}
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._began: SimpleQueue[None] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self.is_served = False
        self._thread = 0

    def connect(self) -> Producer:
        """Create the client.

        Raises:
            ConfigError: librdkafka rejects a setting.
        """
        try:
            self._producer = Producer({**self._config, "error_cb": self.faults.record})
        except KafkaException as error:
            raise ConfigError(f"Kafka producer: {error.args[0].str()}") from error
        return self._producer

    def successor(self) -> Connection:
        """The connection that replaces this one, the same for every caller. It needs no lock."""
        return self._successors.setdefault("", Connection(self._config))

    def start(self) -> None:
        """Start the thread if it is not running."""
        if self.is_served:
            return
        # the wait has an end: an exception out of a signal handler may have left the lock taken,
        # and a second thread does no harm
        is_ours = self._starting.acquire(timeout=CHECK_SECONDS)
        try:
            if not self.is_served:
                # not `Thread.start`: left by an exception, it may hang the new thread
                _thread.start_new_thread(self._serve, ())
                self._began.get(timeout=CHECK_SECONDS)
        except Empty:
            return
        finally:
            if is_ours:
                self._starting.release()

    def run(self, job: Job) -> None:
        """Have messages sent and their reports served."""
        self._jobs.put(job)

    def stop(self, seconds: float) -> None:
        """End the client once every message has a report; waits for at most `seconds`."""
        if self.process != os.getpid():
            return
        self._jobs.put(None)
        self.is_closed = True
        if self._thread == threading.get_ident():
            return
        self.start()
        try:
            self._ended.get(timeout=seconds)
        except Empty:
            return
        self._ended.put(None)  # for the next call

    def _serve(self) -> None:
        self.is_served, self._thread = True, threading.get_ident()
        self._began.put(None)
        try:
            self._work()
        finally:
            self.is_served = False
        self._jobs.put(None)  # for a second thread, if there is one
        self._ended.put(None)

    def _work(self) -> None:
        """Run jobs and serve reports, until the end and the last report have come."""
        if self._producer is None and not self.is_closed:
            self.connect()
        producer, is_ending = self._producer, False
        while producer is not None and not (is_ending and not len(producer)):
            try:
                # without messages under way there is nothing to poll for
                job = self._jobs.get(block=not is_ending and not len(producer))
            except Empty:
                producer.poll(POLL_SECONDS)
                if self.faults.is_new:
                    producer.purge()
                    self.faults.is_new = len(producer) > 0
                continue
            if job is None:
                is_ending = True
            else:
                job(producer)
            del job  # it refers to what ends this thread when it is collected
        self.is_closed, self._producer = True, None
        while not self._jobs.empty():  # what came too late
            if (job := self._jobs.get()) is not None:
                job(None)
            del job
