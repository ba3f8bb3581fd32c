"""Many directories of one parent are listed as they are, and by no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import ConfinementError, FormatError, ReachedByLink
from tidegate.storage import NotFound, Storage
from tidegate.storage.store import MAX_DEPTH

ONE = ThreadMap(1)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake/t/plain").mkdir(parents=True)
    for name, size in (("b", 2), ("a", 1)):
        (tmp_path / "lake/t/plain" / name).write_bytes(b"x" * size)
        os.utime(tmp_path / "lake/t/plain" / name, ns=(0, 5_000_000 * size))
    return tmp_path / "lake"


@pytest.fixture
def storage(lake: Path) -> Storage:
    return Storage(confined_to=[str(lake)])


def test_the_files_of_a_directory_have_names_sizes_and_times(lake: Path, storage: Storage) -> None:
    [files] = storage.walk_each(str(lake / "t"), ["plain"], ONE)
    assert files == (("a", 1, False, 5), ("b", 2, False, 10))


def test_what_is_missing_empty_or_a_file_is_distinguished(lake: Path, storage: Storage) -> None:
    (lake / "t/empty").mkdir()
    (lake / "t/file").touch()
    found = storage.walk_each(str(lake / "t"), ["missing", "empty", "file"], ONE)
    assert found == [None, (), None]
    assert storage.walk_each(str(lake / "gone"), ["a", "b"], ONE) == [None, None]


def test_a_link_in_a_directory_is_listed_as_one(lake: Path, storage: Storage) -> None:
    (lake / "t/plain/link").symlink_to(lake / "t")
    [files] = storage.walk_each(str(lake / "t"), ["plain"], ONE)
    assert files is not None
    assert [(name, is_link) for name, _, is_link, _ in files] == [
        ("a", False),
        ("b", False),
        ("link", True),
    ]


def test_files_below_directories_are_listed_in_their_places(lake: Path, storage: Storage) -> None:
    (lake / "t/plain/ab/deep").mkdir(parents=True)
    (lake / "t/plain/ab/deep/c").touch()
    (lake / "t/plain/ab/z").touch()
    [files] = storage.walk_each(str(lake / "t"), ["plain"], ONE)
    assert files is not None
    assert [file[0] for file in files] == ["a", "c", "z", "b"]
    assert [entry.name for entry in storage.walk(str(lake / "t/plain"))] == ["a", "c", "z", "b"]


def test_no_link_is_followed_to_a_directory(lake: Path, storage: Storage) -> None:
    """It may have been a directory when its parent was listed."""
    (lake / "t/link").symlink_to(lake / "t/plain")
    (lake / "t/out").symlink_to(lake.parent)
    with pytest.raises(ReachedByLink):
        storage.walk_each(str(lake / "t"), ["plain", "link"], ONE)
    with pytest.raises(ConfinementError):
        storage.walk_each(str(lake / "t"), ["plain", "out"], ONE)


def test_nothing_is_listed_too_deep(tmp_path: Path) -> None:
    storage, here = Storage(confined_to=[str(tmp_path)]), tmp_path
    for _ in range(MAX_DEPTH):
        here /= "d"
    (here / "one").mkdir(parents=True)
    with pytest.raises(FormatError, match="nested"):
        storage.walk_each(str(here), ["one"], ONE)


def test_names_say_what_each_is(lake: Path, storage: Storage) -> None:
    (lake / "t/file").touch()
    (lake / "t/link").symlink_to(lake / "t/plain")
    (lake / "t/broken").symlink_to(lake / "t/nowhere")
    os.mkfifo(lake / "t/pipe")
    found = storage.list(str(lake / "t"))
    assert [(entry.name, entry.is_dir, entry.is_link) for entry in found] == [
        ("broken", False, True),
        ("file", False, False),
        ("link", False, True),
        ("pipe", False, False),
        ("plain", True, False),
    ]


def test_names_of_what_is_not_there(lake: Path, storage: Storage) -> None:
    for path in ("t/missing", "t/plain/a"):
        with pytest.raises(NotFound):
            storage.list(str(lake / path))
    with pytest.raises(ConfinementError):
        storage.list(str(lake.parent))
