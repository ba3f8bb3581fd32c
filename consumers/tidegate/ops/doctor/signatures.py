"""Check who can have commands carried out: the holders of keys, or all writers of the topic."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.ops.doctor.finding import Finding, Status
from tidegate.service.assembly import authorizer
from tidegate.service.settings import Settings
from tidegate.signatures.keys import SigningKey

_CHECK = "signatures"
_UNSIGNED = (
    "commands need no signature: the ACL of the commands topic is the only guard, and the names in"
    " requests are what their publishers wrote"
)
_APPROVALS = (
    "; so the approval of a restore only protects against mistakes: a principal that may write"
    " there can use a second name, and one that may write commits can condemn one in any name"
)


def check_signatures(settings: Settings) -> Finding:
    """Whether commands must be signed, and whether the keys are valid and their files private."""
    security = settings.security
    authorizer(settings)  # raises if a key is invalid
    if security.sign_with is not None:
        SigningKey.read(security.sign_with)
    if not security.require_signatures:
        advice = "set [security] require_signatures and list the keys, or keep that ACL narrow"
        asks = any(rule.approval for rule in settings.restores.rules)
        return Finding(_CHECK, Status.WARN, _UNSIGNED + (_APPROVALS if asks else ""), advice)
    now = datetime.now(UTC)
    valid = [key for key in security.keys if key.not_after is None or key.not_after > now]
    names = ", ".join(sorted({key.name for key in valid}))
    seen = f"required; {len(valid)} valid keys: {names}"
    if expired := len(security.keys) - len(valid):
        advice = "remove them from [[security.keys]] once their commands have been processed"
        return Finding(_CHECK, Status.WARN, f"{seen}; {expired} have expired", advice)
    return Finding(_CHECK, Status.OK, seen)
