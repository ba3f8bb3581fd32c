"""Who dies while writing leaves nothing beside a table's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.tables.warehouse import Warehouse, WarehouseRoots


class Killed(BaseException):
    """A SIGKILL: nothing after it runs."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def die(*_: object, **__: object) -> None:
    raise Killed


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    (tmp_path / "lake").mkdir()
    return Warehouse(WarehouseRoots.of(str(tmp_path)))


def test_a_file_has_no_name_before_it_is_whole(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(names(tmp_path / "lake")))
    warehouse.create(str(tmp_path / "lake/a.commit"), b"whole")

    assert seen == [[]]
    assert names(tmp_path / "lake") == ["a.commit"]


def test_who_dies_before_a_file_has_its_name_leaves_nothing(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", die)
    with pytest.raises(Killed):
        warehouse.create(str(tmp_path / "lake/a.commit"), b"whole")

    assert names(tmp_path / "lake") == []


def test_a_draft_that_the_dead_left_is_swept_by_the_next_replace(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    left = tmp_path / "lake" / f".a.properties.{'0' * 32}.tmp"
    left.write_bytes(b"half")
    other = tmp_path / "lake" / ".a.properties.backup.tmp"
    other.write_bytes(b"not ours")
    warehouse.replace(str(tmp_path / "lake/a.properties"), b"new")

    assert names(tmp_path / "lake") == [".a.properties.backup.tmp", "a.properties"]
