"""The ports that strangers reach, and clients that mean harm: memory and answers of a process."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

MONITORING = """
import sys, time
from tidegate.monitoring.endpoint import serve
from tidegate.monitoring.metrics import Metrics
from tidegate.runtime import http_server
http_server._LONGEST = float(sys.argv[1])
with serve("127.0.0.1", 0, Metrics().registry, (list, list)) as port:
    print(port, flush=True)
    sys.stdin.read()
"""
CALLBACKS = """
import sys
from tidegate.bridges.callbacks import http_callbacks
from tidegate.runtime import http_server
http_server._LONGEST = float(sys.argv[1])
with http_callbacks("127.0.0.1", 0, lambda location: location == "/wh/a") as port:
    print(port, flush=True)
    sys.stdin.read()
"""
BODY = b'{"commitTime": "20260301100400000", "basePath": "/wh/a"}'
HONEST = {
    MONITORING: (b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", b" 200 "),
    CALLBACKS: (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, b" 202 "),
}
GROWTH = 64 * 1024
"""Kilobytes."""
LONGEST = 5.0
"""Seconds that a connection may take in all."""


class Served:
    """A process that serves a port."""

    def __init__(self, process: subprocess.Popen[str], program: str) -> None:
        self._process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())
        self.request, self.answer = HONEST[program]
        assert self.works()
        self._before = self._status("VmRSS")

    def connect(self, timeout: float = 5) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(self, request: bytes) -> bytes:
        """The first line of the answer; empty where the connection was closed without one."""
        with self.connect(30) as client:
            try:
                client.sendall(request)
                return client.makefile("rb").readline()
            except ConnectionError:
                return b""

    def works(self) -> bool:
        return self.answer in self.ask(self.request)

    def growth(self) -> int:
        """Kilobytes by which it grew at most."""
        return self._status("VmHWM") - self._before

    def threads(self) -> int:
        return self._status("Threads")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@pytest.fixture(
    params=[pytest.param(MONITORING, id="monitoring"), pytest.param(CALLBACKS, id="cb")]
)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with subprocess.Popen(
        [sys.executable, "-c", request.param, str(LONGEST)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Served(process, request.param)
        process.terminate()


def send_on(client: socket.socket, piece: bytes, total: int) -> None:
    with contextlib.suppress(OSError):
        for _ in range(total // len(piece)):
            client.sendall(piece)


@pytest.mark.slow
def test_hundreds_of_connections_keep_no_honest_client_out(served: Served) -> None:
    with ExitStack() as stack:
        began = time.monotonic()
        for number in range(400):
            client = stack.enter_context(served.connect())
            client.send(b"GET / HTTP/1.1\r\nX: ")
            if number % 100 == 0:
                assert served.works()
        assert served.works()
        assert served.threads() < 100
        assert time.monotonic() - began < 60
    assert served.works()
    assert served.growth() < GROWTH


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 33554432\r\n\r\n", id="a long body"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", id="too long"),
        pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", id="chunked"),
        pytest.param(b"POST / HTTP/1.1\r\n\r\n", id="without a length"),
        pytest.param(b"GET /" + b"a" * 70_000, id="a request line that never ends"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 60_000, id="a header"),
        pytest.param(b"GET / HTTP/1.1\r\n" + (b"X: " + b"a" * 900 + b"\r\n") * 99, id="headers"),
    ],
)
def test_what_never_ends_takes_no_memory(served: Served, head: bytes) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(served.connect()) for _ in range(16)]
        threads = [
            threading.Thread(target=send_on, args=(client, b"{},{}," * 10_000, 33_000_000))
            for client in clients
        ]
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(head)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert served.works()
    assert served.growth() < GROWTH


def test_headers_beyond_the_limit_are_refused(served: Served) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 900) for number in range(30))

    assert b" 431 " in served.ask(b"GET / HTTP/1.1\r\n" + many + b"\r\n")


@pytest.mark.slow
def test_a_client_that_sends_a_byte_now_and_then_is_hung_up(served: Served) -> None:
    with served.connect(2) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < LONGEST + 30:
                client.send(b"a")
                with contextlib.suppress(TimeoutError):
                    if client.recv(1) == b"":
                        break
    assert LONGEST - 1 < time.monotonic() - began < LONGEST + 20
