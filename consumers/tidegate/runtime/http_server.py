"""Serves a WSGI application to strangers, with bounded threads, memory and time.

Each connection has one request and one thread, and the number of connections is limited. At the
limit, a new connection replaces the oldest one. So a client that is slow on purpose does not block
Prometheus or the check of a supervisor.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

log = logging.getLogger(__name__)
_Request = socket.socket | tuple[bytes, socket.socket]
MAX_HEAD: Final = 16 * 1024
"""Bytes of the request line and all headers."""
_CONNECTIONS: Final = 16
_LONGEST = 30.0
"""Seconds that a connection may take in all."""
_SILENCE: Final = 10.0
"""Seconds without a byte after which a connection is closed."""
_WAIT: Final = 1.0
"""Seconds to wait, at most, for the end of a connection that was closed."""


@contextmanager
def served(application: WSGIApplication, host: str, port: int, name: str) -> Generator[int]:
    """Answer requests while the block runs, on a thread of this name.

    Yields:
        The port, which the system chooses for port 0.

    Raises:
        OSError: the address can't be used.
    """
    with make_server(host, port, application, _Server, _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 4 * _CONNECTIONS

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 - as the library's
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        self._open: dict[int, socket.socket] = {}
        super().__init__(*args)

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
        end = threading.Timer(_LONGEST, _hang_up, (connection,))
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


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE

    def setup(self) -> None:
        """Count what is read of the head."""
        super().setup()
        self.rfile: Any = _Head(self.rfile)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the base's
        """Log the request; the library would write it to stderr."""
        log.debug(format, *args)


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
