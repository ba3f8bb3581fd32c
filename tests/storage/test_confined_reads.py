"""Whatever a tenant puts into its directory, reading it neither waits, leaks nor fills memory."""

from __future__ import annotations

import os
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from support.descriptors import open_below
from tidegate.errors import ConfinementError, FormatError, ReachedByLink
from tidegate.storage import NotFound, Storage

READS = pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda s, at: s.read(f"{at}/file"), id="read"),
        pytest.param(lambda s, at: s.list(at), id="list"),
        pytest.param(lambda s, at: s.names(at), id="names"),
        pytest.param(lambda s, at: list(s.walk(at)), id="walk"),
    ],
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for folder in ("lake/t", "lake/other", "outside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_bytes(b"secret")
    return tmp_path / "lake"


@pytest.fixture
def confined(lake: Path) -> Storage:
    return Storage(confined_to=[str(lake)])


@READS
def test_nothing_outside_the_roots_is_read(
    lake: Path, confined: Storage, read: Callable[[Storage, str], object]
) -> None:
    with pytest.raises(ConfinementError):
        read(confined, f"{lake.parent}/outside")
    with pytest.raises(ConfinementError):
        read(confined, "memory://elsewhere")


@READS
@pytest.mark.parametrize(
    ("target", "error"), [("other", ReachedByLink), ("../outside", ConfinementError)]
)
def test_no_link_below_a_root_is_read_through(
    lake: Path,
    confined: Storage,
    read: Callable[[Storage, str], object],
    target: str,
    error: type[Exception],
) -> None:
    (lake / "link").symlink_to(target)
    (lake / "link2").symlink_to("..")

    with pytest.raises(error):
        read(confined, f"{lake}/link")
    with pytest.raises(ConfinementError):
        read(confined, f"{lake}/link2/lake/other")


def test_a_file_that_is_a_link_is_not_read(lake: Path, confined: Storage) -> None:
    (lake / "t/link").symlink_to("../other/file")

    with pytest.raises(ReachedByLink):
        confined.read(f"{lake}/t/link")


def test_a_root_that_is_a_link_is_read_through(lake: Path) -> None:
    (lake.parent / "alias").symlink_to(lake)
    storage = Storage(confined_to=[f"{lake.parent}/alias"])

    assert storage.read(f"{lake.parent}/alias/t/file") == b"secret"
    assert [entry.name for entry in storage.list(f"{lake.parent}/alias")] == ["other", "t"]


def test_a_pipe_or_a_device_is_refused_at_once(lake: Path, confined: Storage) -> None:
    os.mkfifo(lake / "t/pipe")

    with pytest.raises(FormatError, match="not a regular file"):
        confined.read(f"{lake}/t/pipe")
    with pytest.raises(FormatError, match="not a regular file"):
        Storage().read("/dev/zero")


def test_a_file_of_nothing_but_holes_is_refused_by_its_size(lake: Path, confined: Storage) -> None:
    with (lake / "t/holes").open("wb") as file:
        file.truncate(200 * 1024**3)

    with pytest.raises(FormatError, match="larger than the limit"):
        confined.read(f"{lake}/t/holes")


@pytest.mark.parametrize("place", ["local", "remote"])
def test_a_caller_may_set_a_smaller_limit(tmp_path: Path, place: str) -> None:
    folder = str(tmp_path) if place == "local" else f"memory://{uuid.uuid4().hex}"
    fs, path = fsspec.url_to_fs(f"{folder}/f")
    fs.pipe_file(path, b"12345")

    assert Storage().read(f"{folder}/f", limit=5) == b"12345"
    with pytest.raises(FormatError, match="larger than the limit of 4 bytes"):
        Storage().read(f"{folder}/f", limit=4)


def test_directories_nested_without_end_are_refused(lake: Path, confined: Storage) -> None:
    (lake / "t" / "/".join("d" * 150)).mkdir(parents=True)

    with pytest.raises(FormatError, match="nested"):
        list(confined.walk(f"{lake}/t"))
    with pytest.raises(FormatError, match="nested"):
        list(Storage().walk(f"{lake}/t"))


def test_a_read_of_what_is_not_there_finds_nothing_and_names_it(
    confined: Storage, lake: Path
) -> None:
    with pytest.raises(NotFound, match="nothing"):
        confined.read(f"{lake}/t/nothing")


def test_no_read_leaves_a_descriptor_open(lake: Path, confined: Storage) -> None:
    os.mkfifo(lake / "t/pipe")
    (lake / "t/link").symlink_to("../other")
    (lake / "t/file").unlink()
    for name in ("file", "pipe", "link/file", "none/file", "file/file", "", "link"):
        with pytest.raises((NotFound, ConfinementError, FormatError)):
            confined.read(f"{lake}/t/{name}")

    assert open_below(lake) == []


def test_listing_a_remote_directory_compares_no_entry_with_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []

    class Counted(dict[str, object]):
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            compared.append(1)
            return super().__eq__(other)

    def ls(*_: object, **__: object) -> list[Counted]:
        return [Counted(name=f"/d/{n}", type="file", size=0) for n in range(1000)]

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)

    assert len(Storage().list("memory://d")) == 1000
    assert compared == []


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"12345")
    tracemalloc.start()
    try:
        assert Storage().read(f"{tmp_path}/small", limit=2**30) == b"12345"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_that_grows_while_it_is_read_is_read_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, fstat = tmp_path / "growing", os.fstat
    file.write_bytes(b"12345")

    def then_grows(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        with file.open("ab") as more:
            more.write(b"6789")
        return found

    monkeypatch.setattr(os, "fstat", then_grows)
    assert Storage().read(str(file)) == b"123456789"
    with pytest.raises(FormatError, match="larger than the limit"):
        Storage().read(str(file), limit=12)
