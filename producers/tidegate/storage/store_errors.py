"""One table of the errors of remote stores' clients: denied, unavailable, not found, misplaced.

Every client has errors of its own. Some are not OSErrors, and some have a misleading kind: obstore
reports a missing bucket as a missing file. So every call of a client is made in `store_errors`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from tidegate.errors import FormatError, PermanentError, TransientError


def _denied(message: str) -> Exception:
    return PermissionError(errno.EACCES, message)


def _gone(message: str) -> Exception:
    return FileNotFoundError(errno.ENOENT, message)


_OF_CODES: Final[tuple[tuple[Callable[[str], Exception], str], ...]] = (
    # 400 without a name is that of a HEAD request with credentials that have expired
    (
        _denied,
        (
            "400|401|403|BlobImmutableDueToPolicy|AccessControlException|AccessDenied|AccountProblem|AllAccessDisabled"
            "|AuthorizationException|ExpiredToken|Forbidden|GSSAPIError|InvalidAccessKeyId"
            "|InvalidToken|NoSASLMechanism|RequestTimeTooSkewed|SASLError|SignatureDoesNotMatch"
        ),
    ),
    (
        TransientError,
        (
            "408|409|412|429|5..|BlocksNotFound|ChecksumError|ConditionalRequestConflict|DataTransferError"
            "|InternalError|InvalidRPCResponse|OperationAborted|OperationFailed|RequestTimeout"
            "|RetriableException|SafeModeException|ServiceUnavailable|SlowDown|StandbyException"
            "|Throttling|ThrottlingException"
        ),
    ),
    (_gone, "404|BlobNotFound|NoSuchKey|NoSuchVersion|NotFound"),
    (
        PermanentError,
        "301|ContainerNotFound|SnapshotsPresent|InvalidBucketName|NoSuchBucket|PermanentRedirect",
    ),
    (FormatError, "InvalidPathException"),
    (NotADirectoryError, "ParentNotDirectoryException"),
    (partial(OSError, errno.ENOTEMPTY), "PathIsNotEmptyDirectoryException"),
    (partial(OSError, errno.EDQUOT), r"\w*Quota\w*ExceededException"),
    (partial(OSError, errno.EIO), r"\w+Exception"),
)
"""The codes of S3's answers and the classes of HDFS's, by their meaning."""

_OF_CLASSES: Final[dict[str, Callable[[str], Exception]]] = {
    "aiohttp.client_exceptions.ClientError": TransientError,
    "azure.core.exceptions.ClientAuthenticationError": _denied,
    "azure.core.exceptions.ServiceRequestError": TransientError,
    "azure.core.exceptions.ServiceResponseError": TransientError,
    "botocore.exceptions.ConnectionError": TransientError,
    "botocore.exceptions.HTTPClientError": TransientError,
    "botocore.exceptions.NoCredentialsError": _denied,
    "botocore.exceptions.PartialCredentialsError": _denied,
    "botocore.exceptions.ProfileNotFound": PermanentError,
    "google.api_core.exceptions.RetryError": TransientError,
    "google.auth.exceptions.RefreshError": _denied,
    "google.auth.exceptions.TransportError": TransientError,
    "obstore.exceptions.InvalidPathError": FormatError,
    "obstore.exceptions.PermissionDeniedError": _denied,
    "obstore.exceptions.UnauthenticatedError": _denied,
    # without a code of the store's answer: no connection, no answer in time, or one cut off
    "obstore.exceptions.GenericError": TransientError,
    "requests.exceptions.RequestException": TransientError,
    "urllib3.exceptions.HTTPError": TransientError,
}
"""Errors without a code, by their class; named, so that no client is imported."""
_CODE: Final = re.compile(
    r"<Code>(\w+)</Code>|\(code: (\w+)\)|status code: (\d{3})"
    r'|^(?:Fatal)?RPCError\("[\w.$]*?(\w+)"|^(\w+)\b(?=\(|$)'
)
_ANSWER: Final = re.compile(r"<Code>(\w+)</Code>.*<Message>(.*?)</Message>", re.DOTALL)
_ELSEWHERE: Final = "incorrectly configured region"
_DETAILS: Final = re.compile(r"\n\nDebug source|\nRequestId:|(\\n|\n)(\\t|\t)at ")
_NO_DIRECTORY: Final = "(is not a directory)"
"""HDFS denies access to what is below a file."""


@contextmanager
def store_errors(location: str) -> Generator[None]:
    """Translate the errors of a client's call; errors without an entry pass unchanged.

    Raises:
        PermissionError: denied.
        TransientError: the store is away or throttles.
        FileNotFoundError: the file is gone.
        FormatError: the store's client can't name this file.
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
    return next((kind(message) for kind, named in _OF_CODES if re.fullmatch(named, code)), None)


def _translated(error: Exception, location: str) -> Exception | None:
    text = _DETAILS.split(str(error), maxsplit=1)[0]
    codes = [*_codes(error, text)]
    if xml := _ANSWER.search(text):  # the rest names the request, and the server's identifiers
        text = f"{xml[1]}: {xml[2]}"
    message = f"{location}: {type(error).__name__}: {text}"
    if _NO_DIRECTORY in text:
        return NotADirectoryError(message)
    for code in codes:
        if found := error_of(code, message):
            return found
    if _ELSEWHERE in text:
        return PermanentError(message)
    if isinstance(error, ValueError) and text.startswith("Could not parse path"):
        return FormatError(message)
    for kind in type(error).__mro__:
        if of_class := _OF_CLASSES.get(f"{kind.__module__}.{kind.__qualname__}"):
            return of_class(message)
    # the number of an OSError means more; hdfs-native has none for a connection
    return TransientError(message) if type(error) is OSError and not error.errno else None


def _codes(error: Exception, text: str) -> Iterator[str]:
    """The codes of a store's answer: as botocore reports them, and in the text of obstore."""
    for cause in (error, error.__cause__):
        answer: Any = getattr(cause, "response", None)
        if isinstance(answer, dict) and "Error" in answer:
            yield str(answer["Error"].get("Code"))
        for name in ("error_code", "status_code", "code"):  # of Azure's and Google's clients
            if (code := getattr(cause, name, None)) is not None:
                yield str(getattr(code, "value", code))
    yield from sorted(map("".join, _CODE.findall(text)), reverse=True)  # names before numbers
