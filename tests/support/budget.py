"""How many random cases a test draws: `make test-all` draws ten times as many as `make test`."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("TEST_BUDGET", "1"))


def examples(usual: int) -> int:
    """The number of cases for a test that usually draws this many."""
    return usual * TIMES
