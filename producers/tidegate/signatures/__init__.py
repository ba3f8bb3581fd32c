"""Signatures of events: keys in files, making a signature, verifying one."""

from __future__ import annotations

from tidegate.signatures.keys import PublicKey, SigningKey
from tidegate.signatures.signer import Signer
from tidegate.signatures.tokens import BadSignatureError, Signature, verified

__all__ = [
    "BadSignatureError",
    "PublicKey",
    "Signature",
    "Signer",
    "SigningKey",
    "verified",
]
