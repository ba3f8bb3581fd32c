"""One suite for every place where tables are changed.

Local file systems, servers of S3 (`support.s3`), emulators of Google and Azure (`support.clouds`),
and HDFS (`support.hdfs`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tables.warehouse.conftest import Place
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import FormatError, PermanentError
from tidegate.storage import FileInfo, NotFound
from tidegate.tables.warehouse import AlreadyExists

SLOW = ("moto with versions", "minio with versions")
EMULATORS = ("fake-gcs", "azurite")
"""Places where a hundred thousand files take ten minutes and more: fake-gcs-server takes longer for
each file that it has. A page of Azure has 5,000."""
NAMES = ["p=*", "p=?", "p=[ab]", "**", "a#b", "a;b", "a%20b", "a%2Fb", "a b", "ü", "a\\b", "~"]
BESIDE = ["a", "b", "p=a/f", "p=b/f"]


def listed(found: Sequence[FileInfo] | None) -> list[str] | None:
    return None if found is None else sorted(info.name for info in found)


def at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """Let `count` threads act at the same moment; return their results and errors."""
    start = threading.Barrier(count)

    def run(number: int) -> object:
        start.wait(10)
        try:
            return act(number)
        except AlreadyExists as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# reading


def test_a_listing_holds_the_direct_children_by_name(place: Place) -> None:
    for name in ("b", "a/deep", "c/x/y"):
        place.put(name)
    entries = place.warehouse.list(place.table)

    assert [(e.name, e.is_dir, e.is_link) for e in entries] == [
        ("a", True, False),
        ("b", False, False),
        ("c", True, False),
    ]
    assert sorted(place.warehouse.names(place.table)) == ["a", "b", "c"]
    assert (entries[1].size, entries[1].modified_ms > 0) == (1, True)
    found = place.warehouse.entry(f"{place.table}/b")
    assert found is not None
    assert found._replace(modified_ms=0) == entries[1]._replace(modified_ms=0)
    assert 0 <= entries[1].modified_ms - found.modified_ms < 1000
    assert place.warehouse.entry(f"{place.table}/none") is None


def test_a_walk_finds_every_file_below(place: Place) -> None:
    names = ["b", "a/x", "a/deep/y", ".hidden/z"]
    for name in names:
        place.put(name)

    found = [entry.path.rpartition("/t/")[2] for entry in place.warehouse.walk(place.table)]
    assert sorted(found) == sorted(names)
    [files, none] = place.warehouse.walk_each(place.table, ["a", "none"], ThreadMap())
    assert none is None
    assert sorted(file[:3] for file in files or ()) == [("x", 1, False), ("y", 1, False)]


def test_a_file_is_read_whole_or_by_its_end_or_refused_by_its_size(place: Place) -> None:
    file = f"{place.table}/f"
    place.warehouse.create(file, b"\x0012345")

    assert place.warehouse.read(file) == b"\x0012345"
    assert place.warehouse.read(file, limit=6) == b"\x0012345"
    assert (place.warehouse.read_end(file, 2), place.warehouse.read_end(file, 9)) == (
        b"45",
        b"\x0012345",
    )
    with pytest.raises(FormatError, match="larger than the limit of 5 bytes"):
        place.warehouse.read(file, limit=5)


def test_an_empty_file_is_a_file(place: Place) -> None:
    for name in ("d/empty", "d/full", "d/deep/empty"):
        place.warehouse.create(f"{place.table}/{name}", b"" if "empty" in name else b"1")

    assert sorted(e.name for e in place.warehouse.walk(place.table)) == ["empty", "empty", "full"]
    assert place.warehouse.read(f"{place.table}/d/empty") == b""
    with place.warehouse.opened(place.table) as folder:
        assert listed(folder.files_below("d")) == ["empty", "empty", "full"]
        assert folder.remove_if("d", lambda _: True)
    assert place.files() == []


@pytest.mark.parametrize("name", ["none", "f", "f/x"])
def test_listing_a_file_or_nothing_finds_nothing(place: Place, name: str) -> None:
    place.put("f")
    for look in (place.warehouse.list, place.warehouse.names):
        with pytest.raises(NotFound):
            look(f"{place.table}/{name}")
    with pytest.raises(NotFound):
        list(place.warehouse.walk(f"{place.table}/{name}"))


@pytest.mark.parametrize("name", ["none", "d", "d/f/x"])
def test_reading_a_directory_or_nothing_finds_nothing(place: Place, name: str) -> None:
    place.put("d/f")
    for read in (place.warehouse.read, lambda at: place.warehouse.read_end(at, 1)):
        with pytest.raises(NotFound):
            read(f"{place.table}/{name}")


def test_directories_nested_without_end_are_refused(place: Place) -> None:
    if place.name == "versitygw":
        pytest.skip("it is a directory itself, and refuses so long a name")
    place.put("/".join("d" * 150))
    with pytest.raises(FormatError, match="nested"):
        list(place.warehouse.walk(place.table))


# creating


def test_a_file_is_created_whole_and_never_over_another(place: Place) -> None:
    place.warehouse.create(f"{place.table}/a/b", b"first")

    for content in (b"second", b"first"):
        with pytest.raises(AlreadyExists):
            place.warehouse.create(f"{place.table}/a/b", content)
    assert place.warehouse.read(f"{place.table}/a/b") == b"first"
    assert place.files() == ["a/b"]


def test_of_many_creators_one_wins(place: Place) -> None:
    def create(number: int) -> int:
        place.warehouse.create(f"{place.table}/lock", str(number).encode())
        return number

    won = [found for found in at_once(8, create) if isinstance(found, int)]
    assert [str(number).encode() for number in won] == [place.warehouse.read(f"{place.table}/lock")]


def test_a_file_is_replaced_with_or_without_a_condition(place: Place) -> None:
    file = f"{place.table}/f"
    has_folders = place.name in {"path", "URI", "hdfs"}
    place.put("f") if has_folders else place.warehouse.replace(file, b"one")
    before = place.warehouse.entry(file)
    assert before is not None
    place.warehouse.replace(file, b"two", before.version)

    for there in (b"two", b"three"):
        with pytest.raises(AlreadyExists):
            place.warehouse.replace(file, b"late", before.version)
        assert place.warehouse.read(file) == there
        place.warehouse.replace(file, b"three")
    place.warehouse.remove_files([file])
    with pytest.raises(AlreadyExists):
        place.warehouse.replace(file, b"late", before.version)
    assert place.files() == []


# removing


def test_removing_files_counts_those_that_were_there(place: Place) -> None:
    for name in ("a", "b", "d/c"):
        place.put(name)
    named = [f"{place.table}/{name}" for name in ("a", "none", "b", "x/y", "d")]

    assert place.warehouse.remove_files([name for name in named if name[-1] != "d"]) == 2
    assert place.warehouse.remove_files(named[:1]) == 0
    assert place.files() == ["d/c"]


def test_many_files_go_with_and_without_checksums(place: Place) -> None:
    for number in range(20):
        place.put(f"p/{number}")
    names = [str(number) for number in range(5, 30)]

    removed = place.warehouse.remove_with_checksums({f"{place.table}/p": names}, ThreadMap())
    assert (removed, place.files()) == (15, [f"p/{number}" for number in range(5)])
    files = [f"{place.table}/p/{number}" for number in range(4)]
    assert place.warehouse.remove_files(files, checksums=True) == 4
    assert place.files() == ["p/4"]


def test_a_listed_file_goes_unless_another_took_its_name(place: Place) -> None:
    place.put("same")
    place.warehouse.create(f"{place.table}/other", b"first")
    entries = place.warehouse.list(place.table)
    place.warehouse.replace(f"{place.table}/other", b"second")

    removed = place.warehouse.remove_entries(entries)
    left = [] if place.name in {"fake-gcs", "minio"} else ["other"]  # these ignore the condition
    assert (removed, place.files()) == (2 - len(left), left)


def test_a_tree_goes_with_all_below_it_and_nothing_beside_it(place: Place) -> None:
    for name in ("d/a", "d/b/c", "d2/a"):
        place.put(name)
    for _ in range(2):
        place.warehouse.remove_tree(f"{place.table}/d")

    assert place.files() == ["d2/a"]


def test_a_directory_goes_only_if_that_is_agreed_to(place: Place) -> None:
    for name in ("delta/a", "delta/deep/b", "other/c"):
        place.put(name)
    asked: list[object] = []

    def refuse(found: Sequence[FileInfo]) -> bool:
        asked.append(listed(found))
        return False

    with place.warehouse.opened(place.table) as folder:
        assert not folder.remove_if("delta", refuse)
        assert listed(folder.files_below("delta")) == ["a", "b"]
        assert folder.remove_if("delta", lambda _: True)
        assert folder.files_below("delta") is None
        assert folder.remove_if("delta", lambda _: True)
        assert listed(folder.files_below("other")) == ["c"]
    assert asked == [["a", "b"]]


def test_a_directory_is_moved_moved_back_and_removed_for_good(place: Place) -> None:
    for name in ("d/a", "d/deep/b", "d2/c", "aside/x"):
        place.put(name)
    warehouse, table, aside = place.warehouse, place.table, f"{place.table}/aside"
    can, before = warehouse.can(table), place.files()
    if not (can.renames or can.versions):
        with pytest.raises(PermanentError, match="rename"), warehouse.moving(table, aside):
            pass
        return

    def move(seen: list[str]) -> bool | None:
        with warehouse.moving(table, aside) as act:
            assert act("none", "none", lambda _: True) is None
            return act("d", "d", lambda found: listed(found) == seen)

    assert (move(["a"]), place.files()) == (False, before)
    assert move(["a", "b"])
    assert list(warehouse.moved_names(aside)) == ["d"]
    [found, none] = warehouse.moved(aside, ["d", "none"], table, ThreadMap())
    assert found is not None
    assert (found.files, found.bytes, none) == (2, 2, None)
    with pytest.raises(NotFound):  # MinIO and moto list the names of directories without objects
        list(warehouse.walk(f"{table}/d"))
    with warehouse.moving_back(aside, table) as back:
        assert back("d", "d", lambda _: True)
        assert back("d", "d", lambda _: True) is None
    assert place.files() == before

    assert move(["a", "b"])
    with warehouse.moving(aside, aside) as rename:
        assert rename("d", "leaving", lambda _: True)
    for _ in range(2):
        warehouse.remove_moved(f"{aside}/leaving", f"{table}/d")
    assert (place.files(), list(warehouse.moved_names(aside))) == (["aside/x", "d2/c"], [])


def test_a_file_that_appears_after_the_look_stays(place: Place) -> None:
    place.put("delta/deep/b")

    def accept(found: Sequence[FileInfo]) -> bool:
        place.put("delta/deep/late")
        return "late" not in (listed(found) or ())

    with place.warehouse.opened(place.table) as folder:
        assert not folder.remove_if("delta", accept)
    assert "delta/deep/late" in place.files()


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_of_a_hundred_thousand_files_those_that_were_listed_go_and_no_other(
    place: Place, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["place"]
    if name in SLOW:
        pytest.skip("it takes many minutes there")
    count = 6_000 if name in EMULATORS else 100_000
    names = [f"part-{number:06d}" for number in range(count)]
    place.fill(f"d/{name}" for name in names)
    place.put("d2/beside")
    seen: list[object] = []

    def accept(found: Sequence[FileInfo]) -> bool:
        seen.append(listed(found))
        place.put("d/late")
        return len(found) > 1

    assert listed(list(place.warehouse.walk(f"{place.table}/d"))) == names
    with place.warehouse.opened(place.table) as folder:
        assert not folder.remove_if("d", accept)
    assert seen[0] == names
    assert place.files() == ["d/late", "d2/beside"]


def test_a_name_is_never_a_pattern_nor_a_part_of_a_url(place: Place) -> None:
    # Azure takes a backslash for a slash
    names = [n for n in NAMES if place.name != "azurite" or "\\" not in n]
    for file in BESIDE:
        place.put(file)
    for name in names:
        place.put(f"{name}/deep/f")
        place.put(f"x/{name}")
    warehouse, table = place.warehouse, place.table

    assert set(names) < set(warehouse.names(table))
    assert warehouse.names(f"{table}/p=[ab]") == ["deep"]
    for name in names:
        assert warehouse.read(f"{table}/{name}/deep/f") == b"1"
    assert warehouse.remove_files(f"{table}/x/{name}" for name in names) == len(names)
    warehouse.create(f"{table}/x/*", b"")
    with warehouse.opened(table) as folder:
        for name in names[1:]:
            assert folder.remove_if(name, lambda found: listed(found) == ["f"])
    warehouse.remove_tree(f"{table}/{names[0]}")
    assert place.files() == sorted([*BESIDE, "x/*"])
    warehouse.remove_tree(f"{table}/x")
    assert place.files() == BESIDE
