"""Which tests share a worker of pytest-xdist (`make test` has three).

The tests of one file share its fixtures, so a worker runs all of them. The files that need Spark, a
Metastore, a schema registry or HDFS share one of these each, so one worker runs all of those files,
and begins with them: they take longest. Each worker has a broker of its own.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).parents[2]
SHARED: Final = {
    "spark": re.compile(r"mark\.spark\b|\bsupport\.hudi_records\b"),
    "metastore": re.compile(r"\bsupport\.(metastore|hive_engine)\b"),
    "registry": re.compile(r"mark\.registry\b"),
    "hdfs": re.compile(r"\bsupport\.hdfs\b"),
}
"""The fixture of a part that is started once, and the text in a file that needs the part."""
FIXTURES: Final = {"metastores": "metastore"} | {name: name for name in SHARED}


@cache
def parts_of(file: str) -> tuple[str, ...]:
    """The shared parts that a test file needs, by what it shows."""
    text = (ROOT / file).read_text("utf-8")
    return tuple(part for part, sign in SHARED.items() if sign.search(text))


def scope_of(file: str) -> str:
    """The first shared part that a test file needs, else the file itself."""
    return next(iter(parts_of(file)), file)


class ByPart(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """Gives a worker one scope after the other, in the order of collection."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.split("::", 1)[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByPart:
    return ByPart(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the slow parts first where there are workers; check that every file shows its part."""
    for item in items:
        needed = {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
        if not needed <= set(parts_of(item.nodeid.split("::", 1)[0])):
            raise pytest.UsageError(f"{item.nodeid} needs {needed}, which its file does not show")
    if hasattr(config, "workerinput"):
        items.sort(key=_order_of)


def _order_of(item: pytest.Item) -> int:
    scope = scope_of(item.nodeid.split("::", 1)[0])
    if scope in SHARED:
        return list(SHARED).index(scope)
    return len(SHARED) + (item.get_closest_marker("kafka") is None)
