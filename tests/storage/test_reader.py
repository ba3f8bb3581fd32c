"""Reading, on the local disk and on a file system that fsspec reaches elsewhere."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from tidegate.errors import FormatError
from tidegate.storage import NotFound, Storage

Put = Callable[[str, bytes], None]


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of the test's own: a directory of the disk, or one in fsspec's memory."""
    return str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def put() -> Put:
    def write(location: str, content: bytes) -> None:
        fs, path = fsspec.url_to_fs(location)
        fs.makedirs(fs._parent(path), exist_ok=True)
        fs.pipe_file(path, content)

    return write


def test_a_listing_holds_the_direct_children_by_name(place: str, put: Put) -> None:
    put(f"{place}/t/b", b"12")
    put(f"{place}/t/a/deep", b"1")
    entries = Storage().list(f"{place}/t")

    listed = [(e.name, e.path, e.is_dir, e.is_link) for e in entries]
    assert listed == [("a", f"{place}/t/a", True, False), ("b", f"{place}/t/b", False, False)]
    assert entries[1].size == 2


def test_names_are_those_of_the_listing(place: str, put: Put) -> None:
    for name in ("b", "a/deep", ".hidden"):
        put(f"{place}/t/{name}", b"")
    storage = Storage()
    assert sorted(storage.names(f"{place}/t")) == [
        entry.name for entry in storage.list(f"{place}/t")
    ]
    with pytest.raises(NotFound):
        storage.names(f"{place}/none")


def test_a_walk_finds_every_file_below(place: str, put: Put) -> None:
    for name in ("b", "a/x", "a/deep/y", ".hidden/z"):
        put(f"{place}/t/{name}", b"")

    found = {entry.path for entry in Storage().walk(f"{place}/t")}
    assert found == {f"{place}/t/{name}" for name in ("b", "a/x", "a/deep/y", ".hidden/z")}


def test_a_file_is_read_whole(place: str, put: Put) -> None:
    put(f"{place}/t/f", b"\x00whole\n")

    assert Storage().read(f"{place}/t/f") == b"\x00whole\n"


@pytest.mark.parametrize("name", ["none", "t/f", "t/f/x"])
def test_listing_what_is_not_a_directory_finds_nothing(place: str, put: Put, name: str) -> None:
    put(f"{place}/t/f", b"")

    with pytest.raises(NotFound):
        Storage().list(f"{place}/{name}")


@pytest.mark.parametrize("name", ["none", "t", "t/f/x"])
def test_reading_what_is_not_a_file_finds_nothing(place: str, put: Put, name: str) -> None:
    put(f"{place}/t/f", b"")

    with pytest.raises(NotFound):
        Storage().read(f"{place}/{name}")


@pytest.mark.parametrize("name", ["a\nb", "a*b", "p=[x]", "a b", "a%20b", "ü", "a#b"])
def test_a_strange_name_is_listed_and_read_as_it_is(place: str, put: Put, name: str) -> None:
    put(f"{place}/t/{name}", b"content")
    [entry] = Storage().list(f"{place}/t")

    assert entry.name == name
    assert Storage().read(entry.path) == b"content"


def test_a_directory_that_is_a_link_is_listed_but_not_entered(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/secret").write_text("")
    (tmp_path / "t/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t/loop").symlink_to(tmp_path / "t")
    (tmp_path / "t/broken").symlink_to(tmp_path / "nowhere")

    found = [(entry.name, entry.is_link) for entry in Storage().walk(str(tmp_path / "t"))]
    assert found == [("broken", True), ("link", True), ("loop", True)]


def test_the_modification_time_is_in_milliseconds(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    os.utime(tmp_path / "f", ns=(0, 1_772_366_400_123_000_000))

    assert Storage().list(str(tmp_path))[0].modified_ms == 1_772_366_400_123


def test_a_place_that_is_not_a_location_is_never_opened() -> None:
    with pytest.raises(FormatError):
        Storage().read("relative")
