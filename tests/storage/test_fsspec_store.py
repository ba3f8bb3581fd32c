"""Reading through fsspec what no other client here reaches. Its file system in memory stands in."""

from __future__ import annotations

import uuid
from typing import Any

import fsspec
import pytest
import urllib3
from fsspec.implementations.memory import MemoryFileSystem

from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import ConfigError, FormatError, TransientError
from tidegate.runtime.retry import is_retriable
from tidegate.storage import NotFound, Storage


@pytest.fixture
def root() -> str:
    root = f"memory://{uuid.uuid4().hex}"
    fs, path = fsspec.url_to_fs(root)
    for name in ("t/d/a", "t/d/b/c", "t/e"):
        fs.pipe_file(f"{path}/{name}", b"12")
    return root


def test_it_is_listed_walked_and_read(root: str) -> None:
    storage = Storage()
    found = [(entry.name, entry.is_dir) for entry in storage.list(f"{root}/t")]
    assert found == [("d", True), ("e", False)]
    assert [file.path for file in storage.walk(f"{root}/t")] == [
        f"{root}/t/{name}" for name in ("d/a", "d/b/c", "e")
    ]
    [files, missing] = storage.walk_each(f"{root}/t", ["d", "gone"], ThreadMap())
    assert [file[:2] for file in files or ()] == [("a", 2), ("c", 2)]
    assert missing is None
    assert (storage.read(f"{root}/t/e"), storage.read_end(f"{root}/t/e", 1)) == (b"12", b"2")
    with pytest.raises(FormatError, match="larger than the limit of 1 bytes"):
        storage.read(f"{root}/t/e", limit=1)
    for look in (storage.list, storage.read, storage.names):
        with pytest.raises(NotFound):
            look(f"{root}/none")


def answering(monkeypatch: pytest.MonkeyPatch, *entries: dict[str, Any]) -> None:
    def ls(_: object, path: str, **__: object) -> list[dict[str, Any]]:
        return [{"type": "file", "size": 0} | e | {"name": f"{path}/{e['name']}"} for e in entries]

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)


def test_a_directory_with_a_marker_of_its_own_is_listed(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"name": ""}, {"name": "file"})
    assert [info.name for info in Storage().list(f"{root}/t")] == ["file"]


def test_the_modification_time_of_webhdfs_is_read(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"name": "f", "modificationTime": 1772366400123})
    assert Storage().list(f"{root}/t")[0].modified_ms == 1_772_366_400_123


def test_a_client_s_own_network_fault_is_one_that_may_pass(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise urllib3.exceptions.ProtocolError("cut off")

    monkeypatch.setattr(MemoryFileSystem, "ls", fail)

    with pytest.raises(TransientError) as error:
        Storage().list(f"{root}/t")
    assert is_retriable(error.value)


@pytest.mark.parametrize(
    ("root", "said"), [("nothing://x/y", "Protocol not known"), ("az://x/y", "nstall adlfs")]
)
def test_a_place_that_no_client_reaches_is_an_error_of_the_settings(root: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Storage().list(root)
