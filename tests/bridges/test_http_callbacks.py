"""The endpoint of Hudi's HTTP callback, and clients that mean harm."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tidegate.bridges.callbacks import http_callbacks

BODY = json.dumps({"commitTime": "20260301100400000", "basePath": "/wh/a"}).encode()


class Endpoint:
    """An endpoint that listens, and the messages it received."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.port = 0

    def receive(self, location: str) -> bool:
        self.received.append(location)
        return location == "/wh/a"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, request: bytes) -> bytes:
        """The first line of the answer; empty if the connection was closed without one."""
        with self.connect() as client:
            try:
                client.sendall(request)
                return client.makefile("rb").readline().strip()
            except ConnectionError:
                return b""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with http_callbacks("127.0.0.1", 0, made.receive) as made.port:
        yield made


def post(body: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((b"POST / HTTP/1.1", *headers, b"", body))


def test_a_message_is_received(endpoint: Endpoint) -> None:
    length = b"Content-Length: %d" % len(BODY)

    assert b" 202 " in endpoint.ask(post(BODY, length))
    assert b" 404 " in endpoint.ask(post(BODY.replace(b"/wh/a", b"/wh/b"), length))
    assert endpoint.received[-2:] == ["/wh/a", "/wh/b"]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="no length"),
        pytest.param((b"Transfer-Encoding: chunked",), id="chunked"),
        pytest.param((b"Content-Length: -1",), id="negative"),
        pytest.param((b"Content-Length: " + b"9" * 5_000,), id="no number that is read"),
        pytest.param((b"Content-Length: 99999999",), id="too large"),
    ],
)
def test_other_lengths_are_refused(endpoint: Endpoint, headers: tuple[bytes, ...]) -> None:
    assert b" 400 " in endpoint.ask(post(b"", *headers))


def test_of_a_long_message_the_beginning_is_enough(endpoint: Endpoint) -> None:
    body = BODY[:-1] + b', "hoodieWriteStat": [' + b"{}," * 1_000_000 + b"{}]}"

    assert b" 202 " in endpoint.ask(post(body, b"Content-Length: %d" % len(body)))


def test_only_a_complete_posted_message_is_received(endpoint: Endpoint) -> None:
    assert b" 405 " in endpoint.ask(b"GET / HTTP/1.1\r\n\r\n")
    before = len(endpoint.received)
    with endpoint.connect() as client:
        client.sendall(post(BODY, b"Content-Length: %d" % (len(BODY) + 1)))
        client.shutdown(socket.SHUT_WR)
        assert b" 408 " in client.makefile("rb").readline()
    assert len(endpoint.received) == before
