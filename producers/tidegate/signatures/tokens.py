"""Make and verify the token that is an event's signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidegate.events.base import Event
from tidegate.events.framing import Headers
from tidegate.events.signature import (
    MAX_TOKEN_BYTES,
    SIGNATURE_HEADER,
    TOKEN_TYPE,
    signed_claims,
)
from tidegate.signatures.keys import PublicKey, SigningKey

_ALGORITHM: Final = "Ed25519"
_LATEST: Final = 253_402_300_799  # the year 9999: a datetime cannot be later


class BadSignatureError(Exception):
    """A signature that proves nothing, and why. The catcher refuses the event."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A verified signature: by which key, and until when the broker may have taken the message."""

    key_id: str
    expires: datetime


def token(command: Event, topic: str, key: SigningKey, now: datetime, expires: datetime) -> bytes:
    """Sign an event for a topic."""
    from joserfc import jwt  # noqa: PLC0415 - only signing needs it

    header = {"alg": _ALGORITHM, "typ": TOKEN_TYPE, "kid": key.key_id}
    times = {"iat": int(now.timestamp()), "exp": int(expires.timestamp())}
    claims = signed_claims(command, topic) | times
    return jwt.encode(header, claims, key.jwk, algorithms=[_ALGORITHM]).encode()


def signature_header(headers: Headers) -> bytes | None:
    """The signature that a message carries, unverified; None: it is not signed.

    Raises:
        BadSignatureError: it carries two, or one of a size that no signature has.
    """
    found = [value or b"" for name, value in headers if name == SIGNATURE_HEADER]
    if not found:
        return None
    if len(found) > 1:
        raise BadSignatureError(f"{len(found)} signatures")
    if len(found[0]) > MAX_TOKEN_BYTES:
        raise BadSignatureError(f"a signature of {len(found[0])} bytes")
    return found[0]


def verified(
    signature: bytes, command: Event, topic: str, keys: Mapping[str, PublicKey]
) -> Signature:
    """Verify that one of these keys signed this event for this topic. Time is not looked at.

    Args:
        signature: The content of the header.
        command: The event as it was decoded.
        topic: Where it was read.
        keys: The trusted keys by their ids.

    Raises:
        BadSignatureError: it is not a signature, its key is not trusted, or it is of something
            else.
    """
    from joserfc import jws, jwt  # noqa: PLC0415 - only signing needs it
    from joserfc.errors import JoseError  # noqa: PLC0415

    try:
        key_id = jws.extract_compact(signature).headers().get("kid")
        key = keys.get(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise BadSignatureError(f"the key {str(key_id)[:60]!r} is not in [[security.keys]]")
        found = jwt.decode(signature.decode(), key.jwk, algorithms=[_ALGORITHM])
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise BadSignatureError("it does not verify, or is not a signature at all") from error
    if found.header.get("typ") != TOKEN_TYPE:
        raise BadSignatureError("it is a token made for something else")
    for name, value in signed_claims(command, topic).items():
        if found.claims.get(name) != value:
            raise BadSignatureError(f"it is of another event: its {name} differs")
    return Signature(key.key_id, _expiry(found.claims.get("exp")))


def _expiry(claim: object) -> datetime:
    if type(claim) is not int or not 0 <= claim <= _LATEST:
        raise BadSignatureError("it has no expiry")
    return datetime.fromtimestamp(claim, UTC)
