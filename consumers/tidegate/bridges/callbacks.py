"""Receive Hudi's commit callbacks over HTTP; each names a table to poll now."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

from tidegate.errors import FormatError
from tidegate.hudi_bridge.callbacks import MAX_BYTES, MAX_HEAD_BYTES, callback_location
from tidegate.runtime.http_server import BoundedHandler, BoundedServer

log = logging.getLogger(__name__)
Hint = Callable[[str], bool]
"""Receives the location in a callback, on any thread; returns whether its table is watched."""
_PIECE: Final = 64 * 1024
_LONGEST_LENGTH: Final = len(str(MAX_BYTES))


class HttpCallbacks:
    """The endpoint of `hoodie.write.commit.callback.http.url`, any path: POST a message.

    It answers 202 if the table is watched, 404 if not, and 400 to an invalid message. A client can
    make the bridge poll a watched table, and nothing else.
    """

    def __init__(self, host: str, port: int, hint: Hint) -> None:
        """Listen on the address; `start` begins to answer requests.

        Raises:
            OSError: the address is not available.
        """

        class Handler(_Handler):
            poll_soon = staticmethod(hint)

        self._server = _Server((host, port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="http-callbacks", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer requests."""
        self._thread.start()
        log.info("listening for Hudi's HTTP callback on port %d", self.port)

    def close(self) -> None:
        """Stop listening."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(BoundedServer, HTTPServer):
    """Listens for callbacks."""


class _Handler(BoundedHandler, BaseHTTPRequestHandler):
    poll_soon: Hint

    def do_POST(self) -> None:
        """Take a message. Only its beginning is stored, however long it is."""
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
            location = callback_location(content)
        except FormatError as error:
            self._answer(HTTPStatus.BAD_REQUEST, str(error))
            return
        if self.poll_soon(location):
            self._answer(HTTPStatus.ACCEPTED, "the bridge polls the table now")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "the bridge does not watch this table")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log the request; the library would write it to stderr."""
        log.debug(format, *args)

    def _answer(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"message": message}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
