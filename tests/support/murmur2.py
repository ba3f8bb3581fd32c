"""Kafka's own hashes of some keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MURMUR2: Final[Mapping[str, int]] = {
    "21": -973932308,
    "foobar": -790332482,
    "abc": 479470107,
    "a-little-bit-longer-string": -1486304829,
    "lake.sales.orders": -158059582,
    "lake.sales.na\u00efve": -860538769,
    "\u6e56.\u9500\u552e.\u8ba2\u5355": -684403692,
    "lake.sales.order_lines_2026": 947287456,
}
"""Kafka's own hashes of some keys, as its Java client computes them."""
