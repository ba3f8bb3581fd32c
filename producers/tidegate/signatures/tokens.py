"""Make and verify the token that is an event's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from tidegate.errors import FormatError
from tidegate.events.base import Event
from tidegate.events.codec import Headers
from tidegate.events.signature import (
    MAX_TOKEN_BYTES,
    MAX_VALIDITY,
    SIGNATURE_HEADER,
    SIGNED,
    TOKEN_TYPE,
    signed_claims,
)
from tidegate.events.wire import Message
from tidegate.signatures.keys import PublicKey, SigningKey

_ALGORITHM: Final = "Ed25519"
_LATEST: Final = 253_402_300_799  # the year 9999: a datetime cannot be later


def token(event: Event, topic: str, cluster: str, key: SigningKey, now: datetime) -> bytes:
    """Sign an event for a topic of a cluster, for a day from now on."""
    from joserfc import jwt  # noqa: PLC0415 - only signing needs it

    header = {"alg": _ALGORITHM, "typ": TOKEN_TYPE, "kid": key.key_id}
    times = {"iat": int(now.timestamp()), "exp": int((now + MAX_VALIDITY).timestamp())}
    claims = signed_claims(event, topic, cluster) | times
    return jwt.encode(header, claims, key.jwk, algorithms=[_ALGORITHM]).encode()


def signature_header(headers: Headers) -> bytes | None:
    """The signature that a message carries, unverified; None: it is not signed.

    Raises:
        FormatError: it carries two, or one of a size that no signature has.
    """
    found = [value or b"" for name, value in headers if name == SIGNATURE_HEADER]
    if not found:
        return None
    if len(found) > 1:
        raise FormatError(f"{len(found)} signatures")
    if len(found[0]) > MAX_TOKEN_BYTES:
        raise FormatError(f"a signature of {len(found[0])} bytes")
    return found[0]


def verified(
    signature: bytes, event: Event, topic: str, cluster: str, keys: Mapping[str, PublicKey]
) -> tuple[str, datetime, datetime]:
    """Verify that one of these keys signed this event for this topic. Compares it with no clock.

    Args:
        signature: The content of the header.
        event: The event as it was decoded.
        topic: Where it was read.
        cluster: The id of the cluster where it was read.
        keys: The trusted keys by their ids.

    Returns:
        The id of the key, when it signed, and until when the broker may take the message.

    Raises:
        FormatError: it is not a signature, its key is not trusted, it is of something else,
            or it is valid for longer than a day.
    """
    from joserfc import jws, jwt  # noqa: PLC0415 - only signing needs it
    from joserfc.errors import JoseError  # noqa: PLC0415

    try:
        key_id = jws.extract_compact(signature).headers().get("kid")
        key = keys.get(key_id) if isinstance(key_id, str) else None
        found = jwt.decode(signature.decode(), key.jwk, algorithms=[_ALGORITHM]) if key else None
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise FormatError("it does not verify, or is not a signature at all") from error
    if key is None or found is None:
        raise FormatError(f"the key {str(key_id)[:60]!r} is not in [[security.keys]]")
    if found.header.get("typ") != TOKEN_TYPE:
        raise FormatError("it is a token made for something else")
    for name, value in signed_claims(event, topic, cluster).items():
        if found.claims.get(name) != value:
            raise FormatError(f"it is of another event: its {name} differs")
    signed_at, expires = (_time(found.claims.get(name)) for name in ("iat", "exp"))
    if expires - signed_at > MAX_VALIDITY:
        raise FormatError("it is valid for longer than a day")
    return key.key_id, signed_at, expires


def _time(claim: object) -> datetime:
    if type(claim) is not int or not 0 <= claim <= _LATEST:
        raise FormatError("it has no time of its making, or no expiry")
    return datetime.fromtimestamp(claim, UTC)


Sign = Callable[[Event, Message], Message]
"""Returns the message of an event with its signature."""


def unsigned(_: Event, message: Message) -> Message:
    """The message as it is: a `Sign` without a key."""
    return message


def _now() -> datetime:
    return datetime.now(UTC)


def signer(
    key: SigningKey, cluster: Callable[[], str], clock: Callable[[], datetime] = _now
) -> Sign:
    """Signs the messages of `SIGNED` events with a key. Safe to share between threads.

    Args:
        key: The key.
        cluster: Returns the id of the Kafka cluster.
        clock: Returns the time, aware.
    """

    def sign(event: Event, message: Message) -> Message:
        if not isinstance(event, SIGNED):
            return message
        signature = token(event, message.topic, cluster(), key, clock())
        others = (header for header in message.headers if header[0] != SIGNATURE_HEADER)
        return message._replace(headers=(*others, (SIGNATURE_HEADER, signature)))

    return sign
