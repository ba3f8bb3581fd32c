"""What the signature of an event covers, whatever its framing. Pure: nothing is signed here.

A signature is a JSON Web Token (RFC 7519) in the header SIGNATURE_HEADER, made with an Ed25519 key.
Its claims bind it to one event, for one table, on one topic:

    aud     the topic, with the deployment's prefix
    sub     the table: the key of the message
    jti     the event's id, which counts once: so a signature can't be used twice
    event   the kind of the event
    sha256  the hash of the event's content, in base64url without padding
    iat     when it was signed, in seconds since the epoch
    exp     until when the broker may take the message, in seconds since the epoch

The content is hashed as canonical JSON, not as the bytes on the wire: no schema of a registry can
then give signed bytes another meaning, and a field with a default that a later version adds breaks
no signature.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from tidegate.events.aborted import WritesAborted
from tidegate.events.base import Command, Event
from tidegate.events.codec import decode, encode
from tidegate.events.facts import LockReleased, VacuumFinished

SIGNED: Final = (Command, VacuumFinished, LockReleased, WritesAborted)
"""Commands, and the facts that a removal rests on."""
SIGNATURE_HEADER: Final = "ce_signature"
TOKEN_TYPE: Final = "tidegate-command+jwt"  # noqa: S105 - the type of a token
MAX_TOKEN_BYTES: Final = 8_192


def signed_claims(command: Event, topic: str) -> dict[str, str]:
    """The claims that bind a signature to an event on a topic."""
    digest = sha256(canonical(command)).digest()
    return {
        "aud": topic,
        "sub": command.table,
        "jti": command.event_id,
        "event": type(command).__name__,
        "sha256": urlsafe_b64encode(digest).rstrip(b"=").decode(),
    }


def canonical(command: Event) -> bytes:
    """The content of an event as JSON, as RFC 8785 writes it, without fields at their defaults.

    Integers are exact, which RFC 8785 leaves open beyond 2**53.
    """
    # encoded and decoded: both sides then have the same precision and time zone
    content = decode(encode(command)).model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()
