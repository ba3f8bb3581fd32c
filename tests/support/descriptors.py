"""The open files of this process, by path: other threads open and close theirs meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


def open_below(place: Path) -> list[str]:
    """The paths at and below a place that this process has open, each as often as it has.

    The number of all descriptors is of no use to a test: the threads of an earlier test's Kafka
    client or JVM gateway open and close sockets whenever they like.
    """
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the listing's own, or closed by another thread meanwhile
            found.append(str(descriptor.readlink()))
    real = os.path.realpath(place)
    return sorted(path for path in found if path == real or path.startswith(f"{real}/"))


@pytest.fixture(autouse=True)
def nothing_left_open(tmp_path: Path) -> Iterator[None]:
    """For the `conftest.py` of a room: no test in it may leave a file or directory open."""
    yield
    assert open_below(tmp_path) == []
