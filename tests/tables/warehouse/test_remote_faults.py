"""Stores and clients that answer success where nothing was done, or hide why it was not."""

from __future__ import annotations

import errno
import uuid
from typing import Any

import aiohttp
import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tidegate.errors import PermanentError, TransientError
from tidegate.runtime.retry import is_retriable
from tidegate.storage import Storage
from tidegate.tables.warehouse import AlreadyExists, Warehouse, WarehouseRoots


@pytest.fixture
def root() -> str:
    root = f"memory://{uuid.uuid4().hex}"
    fs, path = fsspec.url_to_fs(root)
    for name in ("t/d/a", "t/d/b/c", "t/e"):
        fs.pipe_file(f"{path}/{name}", b"1")
    return root


@pytest.fixture
def warehouse(root: str) -> Warehouse:
    return Warehouse(WarehouseRoots.of(root))


def nothing(*_: object, **__: object) -> None:
    """What a client does that hides the store's refusal."""


def denied(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, "Access Denied")


def unreachable(*_: object, **__: object) -> None:
    raise ConnectionError("no route to host")


def files(root: str) -> list[str]:
    return [info.path.removeprefix(f"{root}/") for info in Storage().walk(root)]


def test_a_tree_whose_removal_is_denied_silently_is_not_called_removed(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryFileSystem, "rm", nothing)
    monkeypatch.setattr(MemoryFileSystem, "rm_file", denied)

    with pytest.raises(PermissionError, match="Access Denied"):
        warehouse.remove_tree(f"{root}/t/d")


def test_a_tree_that_stays_without_any_error_is_not_called_removed(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryFileSystem, "rm", nothing)
    monkeypatch.setattr(MemoryFileSystem, "rm_file", nothing)

    with pytest.raises(TransientError, match="still there"):
        warehouse.remove_tree(f"{root}/t/d")


@pytest.mark.parametrize("count", [1, 20])
def test_files_that_stay_without_any_error_are_not_called_removed(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    for number in range(count):
        warehouse.create(f"{root}/t/many/{number}", b"")
    monkeypatch.setattr(MemoryFileSystem, "rm_file", nothing)

    with pytest.raises(TransientError, match="still there"):
        warehouse.remove_files(f"{root}/t/many/{number}" for number in range(count))


@pytest.mark.parametrize("count", [2, 20])
def test_a_file_that_was_not_there_is_not_counted_although_the_store_removes_it_gladly(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    real = MemoryFileSystem.rm_file

    def remove(fs: MemoryFileSystem, path: str) -> None:
        if fs.isfile(path):
            real(fs, path)

    monkeypatch.setattr(MemoryFileSystem, "rm_file", remove)
    missing = [f"{root}/t/missing-{number}" for number in range(count)]

    assert warehouse.remove_files([*missing, f"{root}/t/e"]) == 1
    assert files(root) == ["t/d/a", "t/d/b/c"]


def test_a_store_that_is_not_reached_is_never_taken_for_an_empty_one(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ls", "info", "rm", "rm_file", "cat_file"):
        monkeypatch.setattr(MemoryFileSystem, name, unreachable)

    for act in (
        lambda: warehouse.list(f"{root}/t"),
        lambda: warehouse.read(f"{root}/t/e"),
        lambda: warehouse.remove_tree(f"{root}/t/d"),
        lambda: warehouse.remove_files([f"{root}/t/e"]),
    ):
        with pytest.raises(ConnectionError):
            act()


@pytest.mark.parametrize(
    "fault", [aiohttp.ServerDisconnectedError(), aiohttp.ClientPayloadError("cut off")], ids=repr
)
def test_a_client_s_own_network_fault_is_one_that_may_pass(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(MemoryFileSystem, "ls", fail)

    with pytest.raises(TransientError) as error:
        warehouse.list(f"{root}/t")
    assert is_retriable(error.value)


def test_a_refusal_of_an_existing_file_under_another_error_is_already_exists(
    root: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MinIO's answer to If-None-Match reaches us as EINVAL."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "At least one of the pre-conditions did not hold")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", refuse)

    with pytest.raises(AlreadyExists):
        warehouse.create(f"{root}/t/e", b"2")
    with pytest.raises(OSError, match="pre-conditions"):
        warehouse.create(f"{root}/t/f", b"2")


def test_where_a_file_can_not_be_created_atomically_it_is_not_created(root: str) -> None:
    """fsspec on HDFS looks whether the file exists, then overwrites: two processes both win."""

    hadoop = type("Hadoop", (MemoryFileSystem,), {"protocol": "hadooplike"})
    fsspec.register_implementation("hadooplike", hadoop, clobber=True)
    there = root.replace("memory", "hadooplike")
    warehouse = Warehouse(WarehouseRoots.of(there))

    with pytest.raises(PermanentError, match="atomically on hadooplike"):
        warehouse.create(f"{there}/t/new", b"")
    with pytest.raises(PermanentError, match="atomically on hadooplike"):
        warehouse.replace(f"{there}/t/e", b"")


def test_a_directory_with_a_marker_of_its_own_is_listed(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ls(_: object, path: str, **__: object) -> list[dict[str, Any]]:
        names = (f"{path}/", f"{path}/file")
        return [{"name": name, "type": "file", "size": 0} for name in names]

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)

    assert [info.name for info in Storage().list(f"{root}/t")] == ["file"]


def test_the_modification_time_that_webhdfs_gives_is_read(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ls(_: object, path: str, **__: object) -> list[dict[str, Any]]:
        info = {"name": f"{path}/f", "type": "file", "size": 0, "modificationTime": 1772366400123}
        return [info]

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)

    assert Storage().list(f"{root}/t")[0].modified_ms == 1_772_366_400_123
