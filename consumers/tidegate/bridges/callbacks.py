"""Hear Hudi's commit callbacks, over HTTP and Kafka: each says which table to look at now."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidegate.errors import FormatError
from tidegate.hudi_bridge.callbacks import MAX_BYTES, MAX_HEAD_BYTES, Callback, parse_callback
from tidegate.runtime.bus import Partition
from tidegate.runtime.http_server import BoundedHandler, BoundedServer
from tidegate.runtime.kafka.errors import is_unreadable
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import pass_over
from tidegate.runtime.kafka.read_to_end import is_end
from tidegate.runtime.kafka.records import Config

log = logging.getLogger(__name__)
Hint = Callable[[Callback], bool]
"""Told of a callback, from any thread; whether the table is one that is watched."""
_SECONDS: Final = 30
_WAIT: Final = 0.5
_PIECE: Final = 64 * 1024
_LONGEST_LENGTH: Final = len(str(MAX_BYTES))


class HttpCallbacks:
    """The endpoint of `hoodie.write.commit.callback.http.url`, any path: POST a message.

    It answers 202 where the table is watched, 404 where it is not, 400 to anything else. Whoever
    reaches it can make the bridge look at a table, and nothing else.
    """

    def __init__(self, host: str, port: int, hint: Hint) -> None:
        """Listen; requests are answered once `start` was called.

        Raises:
            OSError: the address can't be listened on.
        """

        class Handler(_Handler):
            heard = staticmethod(hint)

        self._server = _Server((host, port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="http-callbacks", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        log.info("Hudi's HTTP callback is heard on port %d", self.port)

    def close(self) -> None:
        """Stop listening."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(BoundedServer, HTTPServer):
    """Listens for callbacks."""


class _Handler(BoundedHandler, BaseHTTPRequestHandler):
    heard: Hint

    def do_POST(self) -> None:
        """Take a message: only its beginning is kept, however long it is."""
        length = self.headers.get("Content-Length", "")
        is_number = length.isdecimal() and len(length) <= _LONGEST_LENGTH
        if not is_number or not 0 < int(length) <= MAX_BYTES:
            self._answer(HTTPStatus.BAD_REQUEST, f"a message of 1 to {MAX_BYTES} bytes is expected")
            return
        left = int(length)
        content = self.rfile.read(min(left, MAX_HEAD_BYTES))
        left -= len(content)
        while left > 0 and (passed := self.rfile.read(min(left, _PIECE))):
            left -= len(passed)
        if left:
            return  # the client has gone
        try:
            callback = parse_callback(content)
        except FormatError as error:
            self._answer(HTTPStatus.BAD_REQUEST, str(error))
            return
        if self.heard(callback):
            self._answer(HTTPStatus.ACCEPTED, "the table is looked at")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "no table that is watched is there")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Not to stderr, as the library does."""
        log.debug(format, *args)

    def _answer(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"message": message}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class KafkaCallbacks:
    """Reads the topic of `hoodie.write.commit.callback.kafka.topic` from its end, on a thread.

    It belongs to no group and commits nothing: what was sent while nobody listened is found on the
    timelines anyway.
    """

    def __init__(self, config: Config, topic: str, hint: Hint) -> None:
        """Nothing is read until `start`."""
        self._config = dict(config) | {"group.id": topic, "enable.auto.commit": False}
        self._metadata = KafkaMetadata(config)
        self._topic, self._hint = topic, hint
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-callbacks", daemon=True)

    def start(self) -> None:
        """Look where the topic ends, and read from there.

        Raises:
            TransientError: the broker does not answer.
            ConfigError: there is no such topic.
        """
        parts = range(self._metadata.partitions(self._topic))
        self._consumer = Consumer(self._config)
        ends = [TopicPartition(self._topic, number, self._end(number)) for number in parts]
        self._consumer.assign(ends)
        self._starts = {Partition(end.topic, end.partition): end.offset for end in ends}
        self._thread.start()
        log.info("Hudi's Kafka callback is heard on topic %s", self._topic)

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS)
            self._consumer.close()

    def _end(self, partition: int) -> int:
        _, end = self._consumer.get_watermark_offsets(
            TopicPartition(self._topic, partition), timeout=_SECONDS
        )
        return int(end)

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(_WAIT)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if is_unreadable(error):  # again and again, until it is passed over
                    self._pass_over(message)
                elif not is_end(error):
                    log.debug("the callbacks' topic: %s", error)
                continue
            try:
                self._hint(parse_callback((message.value() or b"")[:MAX_HEAD_BYTES]))
            except FormatError as fault:
                log.debug("a message of %s is passed over: %s", self._topic, fault)

    def _pass_over(self, message: Message) -> None:
        part = Partition(message.topic() or "", message.partition() or 0)
        try:
            record = pass_over(self._consumer, message, self._starts[part])
        except KafkaException as error:  # the broker is away: the error comes again
            log.debug("the callbacks' topic: %s", error)
            return
        self._starts[part] = record.offset + 1
        log.warning("%s[%d]@%d is passed over: %s", *part, record.offset, record.unreadable)
