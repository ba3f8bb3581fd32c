"""Receive Hudi's commit callbacks over HTTP; each names a table to poll now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tidegate.errors import FormatError
from tidegate.hudi_bridge.callbacks import MAX_BYTES, MAX_HEAD_BYTES, callback_location
from tidegate.runtime.http_server import served

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

Hint = Callable[[str], bool]
"""Receives the location in a callback, on any thread; returns whether its table is watched."""
_PIECE: Final = 64 * 1024
_LONGEST_LENGTH: Final = len(str(MAX_BYTES))


def http_callbacks(host: str, port: int, hint: Hint) -> AbstractContextManager[int]:
    """Serve `hoodie.write.commit.callback.http.url` while the block runs; returns the port.

    A message is posted, to any path. The answer is 202 if the table is watched, 404 if not, and 400
    to an invalid message. A client can make the bridge poll a watched table, and nothing else.

    Raises:
        OSError: the address is not available.
    """

    def application(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        status, message = _answer(environ, hint)
        start(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [json.dumps({"message": message}).encode()]

    return served(application, host, port, "http-callbacks")


def _answer(environ: dict[str, Any], hint: Hint) -> tuple[HTTPStatus, str]:
    if environ["REQUEST_METHOD"] != "POST":
        return HTTPStatus.METHOD_NOT_ALLOWED, "a message is posted"
    length = environ.get("CONTENT_LENGTH", "")
    is_number = length.isdecimal() and len(length) <= _LONGEST_LENGTH
    if not is_number or not 0 < int(length) <= MAX_BYTES:
        return HTTPStatus.BAD_REQUEST, f"a message of 1 to {MAX_BYTES} bytes is expected"
    try:
        location = callback_location(_beginning(environ["wsgi.input"], int(length)))
    except TimeoutError:
        return HTTPStatus.REQUEST_TIMEOUT, "the message ended early"
    except FormatError as error:
        return HTTPStatus.BAD_REQUEST, str(error)
    if hint(location):
        return HTTPStatus.ACCEPTED, "the bridge polls the table now"
    return HTTPStatus.NOT_FOUND, "the bridge does not watch this table"


def _beginning(body: BinaryIO, length: int) -> bytes:
    """Read a body, and return what is needed of it. Only that is stored, however long it is.

    Raises:
        TimeoutError: the client sends no more, or has gone.
    """
    beginning = body.read(min(length, MAX_HEAD_BYTES))
    left = length - len(beginning)
    while left > 0 and (passed := body.read(min(left, _PIECE))):
        left -= len(passed)
    if left:
        raise TimeoutError
    return beginning
