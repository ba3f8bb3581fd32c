"""Decides whose events count: signatures first, then the listed names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from tidegate.authorization.keys import TrustedKey
from tidegate.errors import ConfigError
from tidegate.events import Event, RestoreRequested
from tidegate.events.reasons import Reason
from tidegate.runtime.authorization import SignedBy, Unauthorized
from tidegate.runtime.bus import Record
from tidegate.signatures import BadSignatureError, verified
from tidegate.signatures.tokens import signature_header


class Authorizer:
    """Verifies signatures by the trusted keys, and compares who asks with the listed names.

    A signature that is there always counts, also where none is required: one that proves nothing is
    refused. Times are compared with the broker's time of the message, so a signature says until
    when the command may be published; one that was published in time stays good while it waits.

    Without signatures the name in a request is whatever its publisher wrote: then only the broker's
    access rights on the commands topic keep others from writing that name.
    """

    def __init__(
        self, keys: Sequence[TrustedKey], *, required: bool, restores_by: Sequence[str] = ("*",)
    ) -> None:
        """Take the trusted keys, and shell patterns of the names that may request restores.

        Raises:
            ConfigError: a key is listed twice.
        """
        self._keys = {key.public.key_id: key for key in keys}
        if len(self._keys) != len(keys):
            raise ConfigError("[[security.keys]] has the same public key twice")
        self._public = {key_id: key.public for key_id, key in self._keys.items()}
        self._required, self._restores_by = required, tuple(restores_by)

    @property
    def checks_facts(self) -> bool:
        """Whether there is anything to verify."""
        return self._required or bool(self._keys)

    def check(self, command: Event, record: Record) -> SignedBy | None:
        """Whose key signed the event; None: not signed, where that is accepted.

        Raises:
            Unauthorized: the signature is missing or proves nothing, its key may not ask for this,
                or who asks is not listed. Anybody may ask for a dry run.
        """
        signed_by = self._signed_by(command, record)
        if isinstance(command, RestoreRequested) and not command.plan_only:
            self._check_listed(signed_by.name if signed_by else command.requested_by)
        return signed_by

    def _signed_by(self, command: Event, record: Record) -> SignedBy | None:
        try:
            token = signature_header(record.headers) if self.checks_facts else None
            if token is None:
                if self._required:
                    raise Unauthorized(
                        Reason.NOT_SIGNED,
                        "security.require_signatures is set, and this event is not signed",
                    )
                return None
            signature = verified(token, command, record.partition.topic, self._public)
        except BadSignatureError as bad:
            raise Unauthorized(Reason.BAD_SIGNATURE, f"the signature is refused: {bad}") from bad
        at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        if at > signature.expires:
            raise Unauthorized(
                Reason.SIGNATURE_EXPIRED,
                f"the signature expired at {signature.expires:%Y-%m-%dT%H:%M:%SZ}, and the broker"
                f" got the event at {at:%Y-%m-%dT%H:%M:%SZ}",
            )
        key = self._keys[signature.key_id]
        if (why := key.refuses(command, at)) is not None:
            raise Unauthorized(Reason.KEY_NOT_ALLOWED, why)
        return SignedBy(key.name, signature.key_id)

    def _check_listed(self, who: str) -> None:
        if not any(fnmatchcase(who, pattern) for pattern in self._restores_by):
            raise Unauthorized(Reason.NOT_ALLOWED, f"{who} is not listed in restores.requested_by")
