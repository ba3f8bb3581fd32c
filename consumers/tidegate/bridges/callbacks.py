"""Receive Hudi's commit callbacks over HTTP; each names a table to poll now."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
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


def http_callbacks(host: str, port: int, hint: Hint) -> AbstractContextManager[int]:
    """Serve `hoodie.write.commit.callback.http.url` while the block runs; returns the port.

    A message is posted, to any path. The answer is 202 if the table is watched, 404 if not, and 400
    to an invalid message. A client can make the bridge poll a watched table, and nothing else.

    Raises:
        OSError: the address is not available.
    """

    class Handler(_Handler):
        poll_soon = staticmethod(hint)

    return _Server((host, port), Handler).serving("http-callbacks")
