"""Pauses Python's garbage collector while very many objects without cycles are created."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """Run no cyclic garbage collection in the block: each collection would visit all live objects.

    Restoring a large state spent six sevenths of its time in collections. The collector belongs to
    the whole process, so pause it only for short work, or while nothing else runs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
