"""One table of the errors of remote stores' clients: denied, away or throttled, gone, wrong place.

Every client has errors of its own. Some are not OSErrors, and some have a misleading kind: s3fs
reports a missing bucket as a missing file. So every call of a client is made in `store_errors`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from tidegate.errors import PermanentError, TransientError


def _denied(message: str) -> Exception:
    return PermissionError(errno.EACCES, message)


def _gone(message: str) -> Exception:
    return FileNotFoundError(errno.ENOENT, message)


_OF_CODES: Final[tuple[tuple[Callable[[str], Exception], frozenset[str]], ...]] = (
    (
        _denied,
        frozenset(
            [
                "403",
                "AccessDenied",
                "AccountProblem",
                "AllAccessDisabled",
                "ExpiredToken",
                "Forbidden",
                "InvalidAccessKeyId",
                "InvalidToken",
                "RequestTimeTooSkewed",
                "SignatureDoesNotMatch",
            ]
        ),
    ),
    (
        TransientError,
        frozenset(
            [
                "409",
                "429",
                "500",
                "502",
                "503",
                "504",
                "ConditionalRequestConflict",
                "InternalError",
                "OperationAborted",
                "RequestTimeout",
                "ServiceUnavailable",
                "SlowDown",
                "Throttling",
                "ThrottlingException",
            ]
        ),
    ),
    (_gone, frozenset(["404", "NoSuchKey", "NoSuchVersion", "NotFound"])),
    (
        PermanentError,
        frozenset(["301", "InvalidBucketName", "NoSuchBucket", "PermanentRedirect"]),
    ),
)
"""The codes of S3's answers, by their meaning."""

# Network faults that are not OSErrors; named, so that no client is imported.
_AWAY: Final = {
    "aiohttp.client_exceptions.ClientError",
    "azure.core.exceptions.ServiceRequestError",
    "azure.core.exceptions.ServiceResponseError",
    "botocore.exceptions.ConnectionError",
    "botocore.exceptions.HTTPClientError",
    "google.auth.exceptions.TransportError",
    "urllib3.exceptions.HTTPError",
}


@contextmanager
def store_errors(location: str) -> Generator[None]:
    """Translate the errors of a client's call; errors without an entry pass unchanged.

    Raises:
        PermissionError: denied.
        TransientError: the store is away or throttles.
        FileNotFoundError: the file is gone.
        PermanentError: the wrong place, such as a missing bucket.
    """
    try:
        yield
    except Exception as error:
        translated = _translated(error, location)
        if translated is None:
            raise
        raise translated from error


def error_of(code: str, message: str) -> Exception | None:
    """The error for a code of a store's answer; None for an unknown code."""
    return next((kind(message) for kind, codes in _OF_CODES if code in codes), None)


def _translated(error: Exception, location: str) -> Exception | None:
    for cause in (error, error.__cause__):
        answer: Any = getattr(cause, "response", None)
        if isinstance(answer, dict) and "Error" in answer:
            return error_of(str(answer["Error"].get("Code")), f"{location}: {error}")
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    # some of these are OSErrors, too, whose numbers mean more
    if not isinstance(error, OSError) and names & _AWAY:
        return TransientError(f"{location}: {type(error).__name__}: {error}")
    return None
