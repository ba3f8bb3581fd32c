"""What may change a table: whole or not at all, below the roots, and harmless to repeat."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from support.descriptors import open_below
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import ConfinementError, FormatError, ReachedByLink, TidegateError
from tidegate.tables.warehouse import AlreadyExists, Warehouse, WarehouseRoots

T = TypeVar("T")
R = TypeVar("R")
EVERY_CALL = pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda w, at: w.create(at, b"evil"), id="create"),
        pytest.param(lambda w, at: w.replace(at, b"evil"), id="replace"),
        pytest.param(lambda w, at: w.remove_files([at]), id="remove files"),
        pytest.param(lambda w, at: w.remove_tree(at), id="remove a tree"),
    ],
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").write_text("precious")
    return tmp_path / "lake"


@pytest.fixture
def warehouse(lake: Path) -> Warehouse:
    return Warehouse(WarehouseRoots.of(str(lake)))


def remove_if_there(warehouse: Warehouse, location: str, name: str) -> None:
    with warehouse.opened(location) as folder:
        folder.remove_if(name, lambda _: True)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """Let `count` threads act at the same moment; give what each returned or raised."""
    start = threading.Barrier(count)

    def run(number: int) -> object:
        start.wait(10)
        try:
            return act(number)
        except Exception as error:  # noqa: BLE001 - what it is, the test says
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_a_write_that_fails_leaves_no_draft(warehouse: Warehouse, lake: Path) -> None:
    (lake / "folder/full").mkdir(parents=True)

    with pytest.raises(OSError, match="folder"):
        warehouse.replace(f"{lake}/folder", b"over a directory")
    assert names(lake) == ["folder", "folder/full"]


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "file:{}"])
def test_of_many_who_create_one_file_at_once_one_wins(
    warehouse: Warehouse, lake: Path, spelling: str
) -> None:
    for attempt in range(50):

        def create(number: int, where: str = f"{spelling.format(lake)}/{attempt}") -> None:
            warehouse.create(where, b"%d" % number * 10_000)

        answers = at_once(4, create)
        [winner] = [n for n, answer in enumerate(answers) if answer is None]

        assert [type(answer) for answer in answers].count(AlreadyExists) == 3
        assert (lake / str(attempt)).read_bytes() == b"%d" % winner * 10_000
    assert len(names(lake)) == 50


def test_a_reader_of_a_new_file_sees_all_of_it_or_nothing(warehouse: Warehouse, lake: Path) -> None:
    content = b"x" * 300_000
    halves: list[int] = []

    def watch(stop: threading.Event) -> None:
        while not stop.is_set():
            halves.extend(len(p.read_bytes()) for p in lake.glob("[0-9]*"))

    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(stop,))
    watcher.start()
    for number in range(30):
        warehouse.create(f"file://{lake}/{number}", content)
    stop.set()
    watcher.join()

    assert set(halves) == {300_000}


def test_replacing_shows_a_reader_the_old_content_or_the_new(
    warehouse: Warehouse, lake: Path
) -> None:
    versions = [b"a" * 300_000, b"b" * 300_000]
    warehouse.create(f"{lake}/f", versions[0])
    seen: set[bytes] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((lake / "f").read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(40):
        warehouse.replace(f"file://{lake}/f", versions[number % 2])
    stop.set()
    watcher.join()

    assert seen == set(versions)


@pytest.mark.parametrize("spelling", ["{}/f", "file://{}/f", "{}//f/"])
def test_replacing_removes_the_checksum_that_hadoop_keeps(
    warehouse: Warehouse, lake: Path, spelling: str
) -> None:
    (lake / "f").write_text("old")
    (lake / ".f.crc").write_text("of the old")
    (lake / ".g.crc").write_text("of another")
    warehouse.replace(spelling.format(lake), b"new")

    assert names(lake) == [".g.crc", "f"]
    assert (lake / "f").read_bytes() == b"new"


def test_a_file_below_a_file_counts_as_gone(warehouse: Warehouse, lake: Path) -> None:
    (lake / "f").write_text("")

    assert warehouse.remove_files([f"{lake}/f/x"]) == 0
    warehouse.remove_tree(f"{lake}/f/x")
    assert names(lake) == ["f"]


def test_all_paths_are_checked_before_any_file_goes(warehouse: Warehouse, lake: Path) -> None:
    (lake / "first").write_text("")

    with pytest.raises(ConfinementError):
        warehouse.remove_files([f"{lake}/first", f"{lake.parent}/outside/precious"])
    assert names(lake) == ["first"]


def test_removing_a_tree_removes_the_links_in_it_and_follows_none(
    warehouse: Warehouse, lake: Path
) -> None:
    (lake / "t/deep").mkdir(parents=True)
    (lake / "t/deep/folder").symlink_to(lake.parent / "outside")
    (lake / "t/file").symlink_to(lake.parent / "outside/precious")
    warehouse.remove_tree(f"{lake}/t")

    assert names(lake) == []
    assert (lake.parent / "outside/precious").read_text() == "precious"


def test_two_that_remove_a_tree_at_the_same_time_both_find_it_gone(
    warehouse: Warehouse, lake: Path
) -> None:
    for attempt in range(5):
        tree = lake / str(attempt)
        for folder in range(20):
            (tree / str(folder)).mkdir(parents=True)
            for number in range(20):
                (tree / str(folder) / str(number)).write_text("")

        def remove(_: int, tree: Path = tree) -> bool:
            warehouse.remove_tree(str(tree))
            return tree.exists()

        assert at_once(3, remove) == [False, False, False]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("outside/precious", id="beside the root"),
        pytest.param("lake", id="the root itself"),
        pytest.param("lake/../outside/precious", id="by a step upwards"),
        pytest.param("lake/link/precious", id="through a link"),
        pytest.param("lake2/precious", id="a root that begins alike"),
        pytest.param("lake/link", id="a link itself"),
    ],
)
@EVERY_CALL
def test_no_call_reaches_out_of_the_roots(
    warehouse: Warehouse, lake: Path, place: str, act: Callable[[Warehouse, str], object]
) -> None:
    (lake / "link").symlink_to(lake.parent / "outside")
    before = names(lake.parent)

    with pytest.raises(ConfinementError):
        act(warehouse, f"{lake.parent}/{place}")
    assert names(lake.parent) == before
    assert (lake.parent / "outside/precious").read_text() == "precious"


@pytest.mark.parametrize("place", ["link", "link/", "link/f", "file"])
@EVERY_CALL
def test_no_call_reaches_one_place_under_the_name_of_another(
    warehouse: Warehouse, lake: Path, place: str, act: Callable[[Warehouse, str], object]
) -> None:
    """Else what is said of one table would be done to another."""
    (lake / "t").mkdir()
    (lake / "t/f").write_text("precious")
    (lake / "link").symlink_to(lake / "t")
    (lake / "file").symlink_to(lake / "t/f")
    before = names(lake)

    with pytest.raises(ReachedByLink):
        act(warehouse, f"{lake}/{place}")
    assert names(lake) == before
    assert (lake / "t/f").read_text() == "precious"


@pytest.mark.parametrize(
    "remove",
    [
        pytest.param(lambda w, at: w.remove_files([f"{at}/d/f"]), id="files"),
        pytest.param(lambda w, at: remove_if_there(w, at, "d"), id="directory"),
    ],
)
def test_a_file_that_can_not_be_removed_is_named(
    warehouse: Warehouse,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[Warehouse, str], object],
) -> None:
    (lake / "t/d").mkdir(parents=True)
    (lake / "t/d/f").touch()

    def refused(name: str, **_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", name)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(PermissionError, match=f"'{lake}/t/d/f'"):
        remove(warehouse, f"{lake}/t")


def test_files_of_one_directory_are_removed_with_that_directory_opened_once(
    warehouse: Warehouse, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the cost of a removal grows with the depth of the table and not with its files."""
    (lake / "a/b").mkdir(parents=True)
    for number in range(500):
        (lake / "a/b" / str(number)).touch()
    opened: list[object] = []
    real_open = os.open

    def counted(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(path)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", counted)
    monkeypatch.setattr(os.path, "realpath", lambda _: pytest.fail("a path was resolved"))

    assert warehouse.remove_files(f"file://{lake}/a/b/{n}" for n in range(501)) == 500
    assert len(opened) == 3


@pytest.mark.parametrize(("folders", "files", "tasks"), [(10, 3, 1), (3, 700, 3), (1, 2500, 3)])
def test_a_parallel_removal_has_few_tasks_each_of_whole_directories(
    warehouse: Warehouse, lake: Path, folders: int, files: int, tasks: int
) -> None:
    going = [str(number) for number in range(files)]
    for folder in range(folders):
        (lake / str(folder)).mkdir()
        for name in going:
            (lake / str(folder) / name).touch()
    given: list[int] = []

    class Watched(ThreadMap):
        def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
            given.append(len(items))
            return super().map(function, items)

    everything = {f"{lake}/{folder}": going for folder in range(folders)}
    assert warehouse.remove_with_checksums(everything, Watched()) == folders * files
    assert given == [tasks]
    assert [path for path in lake.rglob("*") if path.is_file()] == []


def test_a_parallel_removal_checks_every_path_before_any_file_goes(
    warehouse: Warehouse, lake: Path
) -> None:
    (lake / "first").write_text("")

    for folders in (
        {str(lake): ["first"], f"{lake.parent}/outside": ["precious"]},
        *({f"{lake}/x": ["first", name]} for name in ("..", "../first", "", "a\0")),
    ):
        with pytest.raises(ConfinementError):
            warehouse.remove_with_checksums(folders, ThreadMap())
    assert names(lake) == ["first"]


@pytest.mark.parametrize("files", [3, 300, 2500])
def test_a_checksum_goes_with_its_file_and_before_it(
    warehouse: Warehouse, lake: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    going = [f"{number}.parquet" for number in range(files)]
    (lake / "t").mkdir()
    for name in (*going[1:], *(f".{name}.crc" for name in going), ".other.crc", "other"):
        (lake / "t" / name).touch()
    gone: list[str] = []
    really = os.unlink

    def watched(name: str, *, dir_fd: int) -> None:
        really(name, dir_fd=dir_fd)
        gone.append(name)

    monkeypatch.setattr(os, "unlink", watched)

    assert warehouse.remove_with_checksums({f"{lake}/t": going}, ThreadMap()) == 2 * files - 1
    assert names(lake / "t") == [".other.crc", "other"]
    when = {name: number for number, name in enumerate(gone)}
    assert all(when[f".{name}.crc"] < when[name] for name in going[1:])


@pytest.mark.parametrize("link", ["7", ".7.crc"])
@pytest.mark.parametrize("files", [9, 90, 1500])
def test_a_link_among_many_files_is_refused_and_stays(
    warehouse: Warehouse, lake: Path, link: str, files: int
) -> None:
    going = [str(number) for number in range(files)]
    (lake / "t").mkdir()
    for name in going:
        (lake / "t" / name).write_bytes(b"rows")
    (lake / "t" / link).unlink(missing_ok=True)
    (lake / "t" / link).symlink_to(lake.parent / "outside")

    with pytest.raises(ConfinementError):
        warehouse.remove_with_checksums({f"{lake}/t": going}, ThreadMap())
    assert (lake / "t" / link).is_symlink()


def test_a_file_system_that_is_mounted_in_a_tree_is_not_entered(
    warehouse: Warehouse, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake / "t/mounted").mkdir(parents=True)
    (lake / "t/mounted/precious").write_text("precious")
    inside = (lake / "t/mounted").stat()
    real = os.fstat

    def other_device(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        if found.st_ino != inside.st_ino:
            return found
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:]))

    monkeypatch.setattr(os, "fstat", other_device)

    with pytest.raises(OSError, match="another file system is mounted here"):
        warehouse.remove_tree(f"{lake}/t")
    assert (lake / "t/mounted/precious").read_text() == "precious"


def test_a_tree_that_is_nested_too_deep_is_refused_and_never_ends_the_process(
    warehouse: Warehouse, lake: Path
) -> None:
    (lake / "t" / "/".join("d" * 150)).mkdir(parents=True)

    with pytest.raises(FormatError, match="nested"):
        warehouse.remove_tree(f"{lake}/t")


def test_no_call_leaves_a_descriptor_open(warehouse: Warehouse, lake: Path) -> None:
    (lake / "link").symlink_to("t")

    for place in ("t/a", "t/a", "link/a", "t/a/b", "t/c/d"):
        for act in (
            lambda at: warehouse.create(at, b""),
            lambda at: warehouse.replace(at, b""),
            lambda at: warehouse.remove_files([at]),
            warehouse.remove_tree,
        ):
            with suppress(TidegateError, OSError):
                act(f"{lake}/{place}")

    assert open_below(lake) == []
