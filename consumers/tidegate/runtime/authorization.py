"""Decides whether an event counts: signatures by the trusted keys first, then the listed names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from tidegate.errors import ConfigError, FormatError, PermanentError
from tidegate.events import Event, RestoreRequested
from tidegate.events.cleanings import HoldRequest
from tidegate.events.reasons import Reason
from tidegate.events.signature import MAY_SIGN, KeyRole, Proof
from tidegate.runtime.bus import Record
from tidegate.signatures import PublicKey, verified
from tidegate.signatures.tokens import signature_header
from tidegate.storage import is_below, normalise

_AHEAD: Final = timedelta(hours=1)
"""How far a signer's clock may be ahead of the broker's."""
_NOT_PROVEN: Final = frozenset(
    {Reason.NOT_SIGNED, Reason.BAD_SIGNATURE, Reason.SIGNATURE_EXPIRED, Reason.KEY_NOT_ALLOWED}
)


def is_unproven(outcome: Event) -> bool:
    """Whether an outcome refuses what a stranger may have written under another command's id."""
    return getattr(outcome, "reason", None) in _NOT_PROVEN


class Unauthorized(Exception):  # noqa: N818 - states a finding
    """An event does not count. The catcher refuses a command with its reason.

    `signed_by` is the name whose key signed it, if a signature was verified.
    """

    def __init__(self, reason: Reason, message: str, signed_by: str | None = None) -> None:
        """Take the code, a sentence for people, and the signer."""
        super().__init__(message)
        self.reason, self.message, self.signed_by = reason, message, signed_by


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A person's or a service's key. A name may have several: the old one and the new one."""

    name: str
    public: PublicKey
    roles: tuple[KeyRole, ...]
    tables: tuple[str, ...] = ("*",)
    """Shell patterns of the tables' names."""
    locations: tuple[str, ...] = ()
    """Normalised directories: the locations of the tables are one of them, or below; empty: any."""
    not_after: datetime | None = None

    def may_sign(self, kind: type[Event]) -> bool:
        """Whether a role of the key permits a kind of event."""
        return any(issubclass(kind, MAY_SIGN[role]) for role in self.roles)

    def refuses(self, event: Event, at: datetime) -> str | None:
        """Why this key may not sign such an event at `at`; None: it may.

        A requester chooses the table's name and its location, so each is checked: the coordinator
        decides by the name, and a worker opens this very location, without following a link below
        a warehouse root. A hold is on a name alone.
        """
        kind = type(event).__name__
        if self.not_after is not None and at > self.not_after:
            return f"the key {self._named} was trusted until {self.not_after:%Y-%m-%dT%H:%MZ}"
        if not self.may_sign(type(event)):
            roles = ", ".join(self.roles)
            return f"the key {self._named} may not sign a {kind}: its roles are {roles}"
        if not any(fnmatchcase(event.table, table.lower()) for table in self.tables):
            return f"the key {self._named} may not sign for the table {event.table}"
        if not isinstance(event, HoldRequest) and not self._covers(event.location):
            return f"the key {self._named} may not sign for a table in {event.location}"
        return None

    def _covers(self, location: str) -> bool:
        try:
            found = normalise(location)
        except FormatError:
            return not self.locations
        return not self.locations or any(
            found == place or is_below(found, place) for place in self.locations
        )

    @property
    def _named(self) -> str:
        return f"{self.public.key_id[:8]} of {self.name}"


class Authorization:
    """Verifies signatures by the trusted keys, and compares who asks with the listed names.

    A signature that is there always counts, also where none is required: one that proves nothing is
    refused. Times are compared with the broker's time of the message, so a signature says until
    when the event may be published; one that was published in time stays good while it waits. The
    answer depends on the event and its record alone, never on a clock: a command that is read again
    after a crash, half executed, has the same answer. Safe to share between threads.

    Without signatures the name in a request is whatever its publisher wrote: then only the broker's
    access rights on the topic keep others from writing that name.
    """

    def __init__(
        self,
        keys: Sequence[TrustedKey] = (),
        cluster: str = "",
        *,
        required: bool = False,
        restores_by: Sequence[str] = ("*",),
    ) -> None:
        """Take the trusted keys; by default the broker's access rights alone decide.

        Args:
            keys: The trusted keys.
            cluster: The id of the Kafka cluster.
            required: Whether unsigned events are refused.
            restores_by: Shell patterns of the names that may request restores.

        Raises:
            ConfigError: a key is listed twice.
        """
        self._keys = {key.public.key_id: key for key in keys}
        if len(self._keys) != len(keys):
            raise ConfigError("[[security.keys]] has the same public key twice")
        self._public = {key_id: key.public for key_id, key in self._keys.items()}
        self._cluster, self._required = cluster, required
        self._restores_by = tuple(restores_by)

    @property
    def checks_signatures(self) -> bool:
        """Whether there is anything to verify: then `check` is called for all of `SIGNED`."""
        return self._required or bool(self._keys)

    def check(self, event: Event, record: Record) -> TrustedKey | None:
        """Whose key signed the event; None: not signed, where that is accepted.

        Raises:
            Unauthorized: the signature is missing or proves nothing, its key may not ask for this,
                or who asks is not listed. Anybody may ask for a dry run.
        """
        signed_by = self._signed_by(event, record)
        if isinstance(event, RestoreRequested) and not event.plan_only:
            self._check_listed(signed_by.name if signed_by else None, event.requested_by)
        return signed_by

    def require(self, event: Event, record: Record) -> None:
        """Check an event that a service consumes, and is not a command.

        Raises:
            PermanentError: it does not count: it becomes a dead letter.
        """
        try:
            self.check(event, record)
        except Unauthorized as refused:
            raise PermanentError(f"{refused.reason}: {refused.message}") from refused

    def _signed_by(self, event: Event, record: Record) -> TrustedKey | None:
        topic = record.partition.topic
        try:
            token = signature_header(record.headers) if self.checks_signatures else None
            if token is None:
                if self._required:
                    raise Unauthorized(
                        Reason.NOT_SIGNED,
                        "security.require_signatures is set, and this event is not signed",
                    )
                return None
            key_id, signed_at, expires = verified(token, event, topic, self._cluster, self._public)
        except FormatError as bad:
            raise Unauthorized(Reason.BAD_SIGNATURE, f"the signature is refused: {bad}") from bad
        at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        key = self._keys[key_id]
        if (why := _untimely(signed_at, expires, record, at)) is not None:
            raise Unauthorized(Reason.SIGNATURE_EXPIRED, why, key.name)
        if (why := key.refuses(event, at)) is not None:
            raise Unauthorized(Reason.KEY_NOT_ALLOWED, why, key.name)
        return key

    def _check_listed(self, signed_by: str | None, claimed: str) -> None:
        who = signed_by or claimed
        if not any(fnmatchcase(who, pattern) for pattern in self._restores_by):
            why = f"{Proof(signed_by).named(claimed)} is not listed in restores.requested_by"
            raise Unauthorized(Reason.NOT_ALLOWED, why, signed_by)


def _untimely(signed_at: datetime, expires: datetime, record: Record, at: datetime) -> str | None:
    """Why the broker did not get a message while its signature was valid; None: it did."""
    if not record.is_brokers_time:
        return (
            "the message has its publisher's time, which can't tell whether the signature has"
            f" expired: set message.timestamp.type=LogAppendTime on {record.partition.topic}"
        )
    if at > expires:
        return (
            f"the signature expired at {expires:%Y-%m-%dT%H:%M:%SZ}, and the broker got the event"
            f" at {at:%Y-%m-%dT%H:%M:%SZ}"
        )
    if at < signed_at - _AHEAD:
        return (
            f"the signature is of {signed_at:%Y-%m-%dT%H:%M:%SZ}, and the broker got the event"
            f" before, at {at:%Y-%m-%dT%H:%M:%SZ}: correct the signer's clock"
        )
    return None
