from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.hive_judge import HiveJudge, NoCompiler, hive_judge


@pytest.fixture(scope="session")
def hive() -> Iterator[HiveJudge]:
    try:
        with hive_judge("-Xmx256m", "-XX:TieredStopAtLevel=1") as judge:
            yield judge
    except NoCompiler as reason:
        pytest.skip(str(reason))
