"""How much a run of the tests does: `make test-full` draws ten times as many random cases."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("TEST_BUDGET", "1"))
UNTIL = float(os.environ.get("TEST_UNTIL", "inf"))
"""No test begins after this time, in seconds since the epoch."""


def examples(usual: int) -> int:
    """The number of cases for a test that usually draws this many."""
    return usual * TIMES
