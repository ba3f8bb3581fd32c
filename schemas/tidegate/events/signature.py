"""What the signature of an event covers, whatever its framing, and who may sign which events. Pure.

A signature is a JSON Web Token (RFC 7519) in the header SIGNATURE_HEADER, made with an Ed25519 key.
Its claims bind it to one event, for one table, on one topic of one cluster:

    cluster   the id of the Kafka cluster
    aud       the topic, with the deployment's prefix
    sub       the table: the key of the message
    location  the table's location, as the event has it
    jti       the event's id, which counts once: so a signature can't be used twice
    event     the kind of the event
    sha256    the hash of the event's content, in base64url without padding
    iat       when it was signed, in seconds since the epoch
    exp       until when the broker may take the message, at most a day after `iat`

The content is hashed as canonical JSON, not as the bytes on the wire: no schema of a registry can
then give signed bytes another meaning, and a field with a default that a later version adds breaks
no signature.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple

from tidegate.events.base import Command, Event, Outcome
from tidegate.events.cleanings import CleaningUndoRequested, HoldRequest
from tidegate.events.codec import decode, encode
from tidegate.events.facts import LockReleased, VacuumFinished, WritesAborted
from tidegate.events.restores import (
    RestoreApproved,
    RestoreDeclined,
    RestoreRequested,
    WithdrawalRequested,
)
from tidegate.events.savepoints import (
    SavepointRemovalRequested,
    SavepointRequested,
    SavepointsCheckRequested,
)
from tidegate.events.tasks import TaskIssued
from tidegate.events.topics import CARRIED

MAX_VALIDITY: Final = timedelta(days=1)
"""The longest life of a signature: much less than a used request is remembered."""
SIGNATURE_HEADER: Final = "ce_signature"
TOKEN_TYPE: Final = "tidegate-command+jwt"  # noqa: S105 - the type of a token
MAX_TOKEN_BYTES: Final = 8_192
_FACTS: Final = (VacuumFinished, LockReleased, WritesAborted)
"""The facts that a removal rests on."""
SIGNED: Final = (Command, Outcome, *_FACTS)
"""The events that are signed."""


class Proof(NamedTuple):
    """Whose key signed an event; without one, what follows the name in it."""

    signed_by: str | None = None
    otherwise: str = "unsigned"

    def named(self, claimed: str) -> str:
        """A person for people: the signer, or a name that no signature proves."""
        if self.signed_by is None:
            return f"{claimed} ({self.otherwise})"
        return claimed if self.signed_by == claimed else f"{self.signed_by} (as {claimed})"


class KeyRole(StrEnum):
    """What a key is for."""

    WRITER = "writer"
    REQUESTER = "requester"
    APPROVER = "approver"
    HOLDER = "holder"
    COORDINATOR = "coordinator"
    WORKER = "worker"


MAY_SIGN: Final[Mapping[KeyRole, tuple[type[Event], ...]]] = MappingProxyType(
    {
        KeyRole.WRITER: _FACTS,
        KeyRole.REQUESTER: (
            SavepointRequested,
            SavepointRemovalRequested,
            RestoreRequested,
            CleaningUndoRequested,
            WithdrawalRequested,
        ),
        KeyRole.APPROVER: (RestoreApproved, RestoreDeclined),
        KeyRole.HOLDER: (HoldRequest,),
        KeyRole.COORDINATOR: (
            TaskIssued,
            *CARRIED,
            SavepointsCheckRequested,
            RestoreRequested,
            Outcome,
        ),
        KeyRole.WORKER: (Outcome,),
    }
)
"""The events that a key of a role may sign."""


def signed_claims(event: Event, topic: str, cluster: str) -> dict[str, str]:
    """The claims that bind a signature to an event on a topic of a cluster."""
    digest = sha256(canonical(event)).digest()
    return {
        "cluster": cluster,
        "aud": topic,
        "sub": event.table,
        "location": event.location,
        "jti": event.event_id,
        "event": type(event).__name__,
        "sha256": urlsafe_b64encode(digest).rstrip(b"=").decode(),
    }


def canonical(event: Event) -> bytes:
    """The content of an event as JSON, as RFC 8785 writes it, without fields at their defaults.

    Integers are exact, which RFC 8785 leaves open beyond 2**53.
    """
    # encoded and decoded: both sides then have the same precision and time zone
    content = decode(encode(event)).model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()
