"""Fixtures that every test may use. The real parts start at the first test that asks for them."""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings

from support.budget import UNTIL, examples

# A deadline per example measures how busy the machine is, not the code. In CI the cases are the
# same each time: its verdict is on the commit.
settings.register_profile(
    "tidegate", deadline=None, max_examples=examples(100), derandomize="CI" in os.environ
)
settings.load_profile("tidegate")

# The unit tests also run where PySpark is not installed (.ci/matrix).
NEEDS = {
    "support.hdfs": "hdfs_native",
    "support.kafka": "docker",
    "support.metastore": "thriftpy2",
    "support.registry": "docker",
    "support.s3": "moto",
    "support.spark": "pyspark",
    "support.workers": "xdist",
}

pytest_plugins = ["support.hudi_records"] + [
    plugin
    for plugin, library in NEEDS.items()
    if importlib.util.find_spec(plugin) is not None
    and importlib.util.find_spec(library) is not None
]


def pytest_runtest_setup() -> None:
    if time.time() > UNTIL:
        pytest.skip("no time is left for it (TEST_UNTIL)")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that ran in this process leaves no handler, with a stream that is closed."""
    root, ours = logging.getLogger(), logging.getLogger("tidegate")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
