"""Names that are not text: bytes that are not UTF-8, as Python spells them."""

from __future__ import annotations

import sys

import pytest

STRANGE = "\udcff"
"""One byte 0xFF."""

takes_any_bytes = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS takes only UTF-8 for a name"
)
