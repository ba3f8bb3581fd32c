"""An HTTP server that strangers can reach, with bounded threads, memory and time.

Each connection has one request and one thread, and the number of connections is limited. At the
limit, a new connection replaces the oldest one. So a client that is slow on purpose does not block
Prometheus or the check of a supervisor.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any, BinaryIO, Final

log = logging.getLogger(__name__)
_Request = socket.socket | tuple[bytes, socket.socket]
MAX_HEAD: Final = 16 * 1024
"""Bytes of the request line and all headers."""
_SILENCE: Final = 10.0
"""Seconds without a byte after which a connection is closed."""
_WAIT: Final = 1.0
"""Seconds to wait, at most, for the end of a connection that was closed."""


class BoundedServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Mix into an HTTP server, before the library's class."""

    daemon_threads = True
    connections = 16
    longest = 30.0
    """Seconds that a connection may take in all."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the library's
        """Listen."""
        self.request_queue_size = 4 * self.connections
        self._free = threading.BoundedSemaphore(self.connections)
        self._open: dict[int, socket.socket] = {}
        super().__init__(*args, **kwargs)

    @contextmanager
    def serving(self, name: str) -> Generator[int]:
        """Answer requests while the block runs, on a thread of this name; returns the port."""
        thread = threading.Thread(target=self.serve_forever, name=name, daemon=True)
        thread.start()
        try:
            yield int(self.server_address[1])
        finally:
            self.shutdown()
            self.server_close()
            thread.join()

    def process_request(self, request: _Request, client_address: Any) -> None:  # noqa: ANN401
        """Answer on a thread; at the limit, close the oldest connection first."""
        connection = _socket(request)
        if not self._free.acquire(blocking=False):
            self._hang_up_oldest()
            if not self._free.acquire(timeout=_WAIT):
                self.shutdown_request(request)
                return
        self._open[id(connection)] = connection
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._ended(connection)
            raise

    def process_request_thread(self, request: _Request, client_address: Any) -> None:  # noqa: ANN401
        """Answer, within the time that a connection may take."""
        connection = _socket(request)
        end = threading.Timer(self.longest, _hang_up, (connection,))
        end.daemon = True
        try:
            end.start()
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._ended(connection)

    def handle_error(self, request: _Request, client_address: Any) -> None:  # noqa: ARG002, ANN401
        """Log a broken request without a stack trace."""
        log.debug("a request of %s was not read: %s", client_address, sys.exception())

    def _ended(self, connection: socket.socket) -> None:
        self._open.pop(id(connection), None)
        self._free.release()

    def _hang_up_oldest(self) -> None:
        for key in list(self._open):  # a dict keeps the order in which they came
            if (oldest := self._open.pop(key, None)) is not None:
                _hang_up(oldest)
                return


class BoundedHandler(socketserver.StreamRequestHandler):
    """Mix into a request handler, before the library's class: it reads no endless head."""

    timeout = _SILENCE

    def setup(self) -> None:
        """Count what is read of the head."""
        super().setup()
        self.rfile: Any = _Head(self.rfile)


class _Head:
    """A connection's bytes. Lines are limited to MAX_HEAD bytes in all; `read` is not limited."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, MAX_HEAD
        self.read, self.close = file.read, file.close

    @property
    def closed(self) -> bool:
        return self._file.closed

    def readline(self, limit: int = -1) -> bytes:
        left = self._left + 1
        line = self._file.readline(left if limit < 0 else min(limit, left))
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException(f"more than {MAX_HEAD} bytes of headers")
        return line


def _socket(request: _Request) -> socket.socket:
    return request[1] if isinstance(request, tuple) else request


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)
