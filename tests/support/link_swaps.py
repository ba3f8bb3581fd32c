"""A process that exchanges a directory with a symbolic link, over and over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# RENAME_EXCHANGE is atomic: at every moment each of the two names is there. The number of exchanges
# is even at the end, so that everything is in its own place again.
_SWAPPER = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
one, other = (os.fsencode(each) for each in sys.argv[1:])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("ready", flush=True)
count = 0
while not stop or count % 2:
    if libc.renameat2(-100, one, -100, other, 2):
        raise OSError(ctypes.get_errno(), "renameat2")
    count += 1
print(count, flush=True)
"""


@dataclass
class Swaps:
    """How many exchanges there were; known at the end."""

    count: int = 0


@contextmanager
def swapping(one: Path, other: Path) -> Generator[Swaps]:
    """Exchange two paths until the block ends; both are in their own places then."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SWAPPER, str(one), str(other)], stdout=subprocess.PIPE, text=True
    )
    swaps = Swaps()
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield swaps
        finally:
            process.terminate()
            swaps.count = int(process.stdout.readline())
