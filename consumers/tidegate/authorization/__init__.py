"""Who may have commands carried out: the keys that the settings trust, and the listed names."""

from __future__ import annotations

from tidegate.authorization.authorizer import Authorizer
from tidegate.authorization.keys import TrustedKey

__all__ = ["Authorizer", "TrustedKey"]
