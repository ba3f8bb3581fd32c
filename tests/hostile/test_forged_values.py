"""Numbers and times that only a forger writes are refused, and are not a fault of a service."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegate.cleaning.quarantine import QuarantineRecord
from tidegate.errors import FormatError
from tidegate.savepoints.derivation import KEY, View
from tidegate.savepoints.further_requests import holder_of
from tidegate.storage import Storage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FORGED_COUNTS = [
    pytest.param("1e999", id="infinite"),
    pytest.param("-1", id="negative"),
    pytest.param(str(2**63), id="more than 63 bits"),
    pytest.param("true", id="a truth"),
    pytest.param("1.5", id="a fraction"),
]
RECORD: Mapping[str, object] = {
    "cleaning": "c",
    "vacuum": "v",
    "table": "hive.default.t",
    "partition": None,
    "why": "x",
    "at": "2026-03-01T00:00:00+00:00",
    "keep_ms": 1,
    "failed": [],
    "directories": {"delta_1_1": [1, "SIZE"]},
    "products": ["base_1"],
    "version": 1,
    "paths": ["delta_1_1"],
}
VIEW: Mapping[str, object] = {
    "format": 1,
    "table": [9, "COPY_ON_WRITE"],
    "layout": 2,
    "instants": [],
    "files": "SIZE",
    "bytes": 1,
    "strangers": False,
    "derived": 0,
}


def forged(record: Mapping[str, object], number: str) -> bytes:
    return json.dumps(record).replace('"SIZE"', number).encode()


@pytest.mark.parametrize("number", FORGED_COUNTS)
def test_a_forged_size_in_a_quarantine_record_is_refused(number: str) -> None:
    assert QuarantineRecord.parse(forged(RECORD, "7")).directories == {"delta_1_1": (1, 7)}
    with pytest.raises(FormatError, match="not a quarantine record"):
        QuarantineRecord.parse(forged(RECORD, number))


@pytest.mark.parametrize("name", ["", "x" * 256], ids=["empty", "too long"])
def test_a_forged_name_in_a_quarantine_record_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="not a quarantine record"):
        QuarantineRecord.parse(json.dumps({**RECORD, "directories": {name: [1, 1]}}).encode())


@pytest.mark.parametrize("number", FORGED_COUNTS)
def test_a_forged_number_of_files_in_a_savepoint_is_refused(number: str) -> None:
    assert View.parse({KEY: b64encode(zlib.compress(forged(VIEW, "7"))).decode()}).files == 7
    with pytest.raises(FormatError, match="no readable view"):
        View.parse({KEY: b64encode(zlib.compress(forged(VIEW, number))).decode()})


def test_a_claim_until_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie/.tidegate/further-requests/20260301100000001"
    folder.mkdir(parents=True)
    (folder / "c.json").write_text('{"by": "ana", "until": "2026-03-02T00:00:00"}')

    with pytest.raises(FormatError, match="can't be read"):
        holder_of(Storage(), str(tmp_path), "20260301100000001", NOW)
