"""Signatures of events: keys in files, making a signature, verifying one."""

from __future__ import annotations

from tidegate.signatures.keys import PublicKey, SigningKey
from tidegate.signatures.tokens import BadSignatureError, Signature, signer, verified

__all__ = ["BadSignatureError", "PublicKey", "Signature", "SigningKey", "signer", "verified"]
