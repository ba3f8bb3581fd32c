from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.embedded_metastore import EmbeddedMetastore
from support.hive_engine import HiveEngine
from support.metastore import own_metastore
from tidegate.errors import ConfigError
from tidegate.hive_metastore import MetastoreClient

pytestmark = pytest.mark.full


def test_two_metastores_start_from_the_same_empty_database_and_share_nothing(
    tmp_path: Path,
) -> None:
    one, other = own_metastore(tmp_path / "one"), own_metastore(tmp_path / "other")
    with one, other:
        mine, yours = HiveEngine(one), HiveEngine(other)
        txn = mine.open_txn()
        with MetastoreClient(mine.settings) as first, MetastoreClient(yours.settings) as second:
            assert first.uuid() != second.uuid()
            assert txn in first.transactions().open
            assert txn not in second.transactions().open
        mine.close()
        yours.close()
        pid = one.pid
        assert pid is not None
    assert one.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_setting_that_it_cannot_start_with_is_an_error_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    broken = EmbeddedMetastore(
        tmp_path / "metastore", settings={"metastore.thrift.bind.host": "no-such-host.invalid"}
    )
    with pytest.raises(ConfigError, match=r"(?s)ended at once.*metastore\.log.*no-such-host"):
        broken.start()
    assert broken.pid is None
