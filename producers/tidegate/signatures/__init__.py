"""Signatures of events: keys in files, making a signature, verifying one."""

from __future__ import annotations

from tidegate.signatures.keys import PublicKey, SigningKey
from tidegate.signatures.tokens import signer, verified

__all__ = ["PublicKey", "SigningKey", "signer", "verified"]
