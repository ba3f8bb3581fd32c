"""A warehouse on a real HDFS: which cluster is meant, what is removed, and what a fault is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import hdfs_native
import pytest

from support.hdfs import Cluster, Hdfs
from tables.warehouse.conftest import Configure
from tidegate.errors import ConfinementError, TransientError
from tidegate.storage import FileInfo, NotFound, normalise
from tidegate.storage import hdfs as hdfs_storage
from tidegate.tables.warehouse import AlreadyExists, Warehouse, WarehouseRoots

pytestmark = pytest.mark.full  # the names and deadlines in test_hdfs_away.py need no cluster


# the cluster


def test_a_removal_is_made_on_the_named_cluster_whatever_the_default_is(
    hdfs: Hdfs, configure: Configure
) -> None:
    configure(**{"fs.defaultFS": hdfs.lake.address})
    for cluster in (hdfs.lake, hdfs.other):
        cluster.put("/wh/t/d/f")
        cluster.put("/wh/t/e/f")
    table, warehouse = f"{hdfs.other.address}/wh/t", hdfs.other.warehouse()

    warehouse.remove_tree(f"{table}/d")
    with warehouse.opened(table) as folder:
        assert folder.remove_if("e", lambda _: True)
    assert (hdfs.lake.all_files(), hdfs.other.all_files()) == (["t/d/f", "t/e/f"], [])


def test_a_location_of_another_cluster_is_outside_of_the_root(
    hdfs: Hdfs, configure: Configure
) -> None:
    configure(**{"fs.defaultFS": hdfs.other.address})
    for cluster in (hdfs.lake, hdfs.other):
        cluster.put("/wh/t/f")
    for elsewhere in (hdfs.other.address, "hdfs://"):
        with pytest.raises(ConfinementError):
            hdfs.lake.warehouse().remove_tree(f"{elsewhere}/wh/t")
    assert (hdfs.lake.all_files(), hdfs.other.all_files()) == (["t/f"], ["t/f"])


def test_without_an_authority_the_default_cluster_is_meant(
    hdfs: Hdfs, configure: Configure
) -> None:
    configure(**{"fs.defaultFS": f"{hdfs.lake.address}/"})
    hdfs.lake.put("/wh/t/f")
    for location in ("hdfs:/wh/t", "hdfs:///wh/t", f"{hdfs.lake.address}/wh/t"):
        assert hdfs.lake.warehouse().names(location) == ["f"]
        assert Warehouse(WarehouseRoots.of("hdfs:/wh")).names(location) == ["f"]


def test_a_name_service_is_found_in_the_configuration_and_its_dead_namenode_passed_over(
    hdfs: Hdfs, configure: Configure
) -> None:
    services = {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "one,two",
        "dfs.namenode.rpc-address.lake.one": "127.0.0.1:1",
        "dfs.namenode.rpc-address.lake.two": hdfs.lake.address.removeprefix("hdfs://"),
    }
    configure("hdfs-site.xml", **services)
    hdfs.lake.put("/wh/t/f")
    warehouse = Warehouse(WarehouseRoots.of("hdfs://lake/wh"))

    assert warehouse.names("hdfs://lake/wh/t") == ["f"]
    warehouse.remove_tree("hdfs://lake/wh/t")
    assert hdfs.lake.all_files() == []


def test_a_mount_of_viewfs_leads_where_hadoop_says_and_a_removal_goes_there(
    hdfs: Hdfs, configure: Configure
) -> None:
    mounts = {
        "fs.viewfs.mounttable.all.link./lake": f"{hdfs.lake.address}/wh",
        "fs.viewfs.mounttable.all.link./lake/other": f"{hdfs.other.address}/wh/t",
        "fs.viewfs.mounttable.all.linkFallback": f"{hdfs.other.address}/",
    }
    configure(**mounts)
    for cluster in (hdfs.lake, hdfs.other):
        for name in ("f", "g"):
            cluster.put(f"/wh/t/d/{name}")
    view, hadoop = hdfs.lake.viewfs("all", mounts), hdfs.lake.path
    for path in ("/lake/t/d/f", "/lake/other/d/f", "/wh/t/d/f"):
        found = str(view.resolvePath(hadoop(path)).toString())
        assert normalise(f"viewfs://all{path}") == found
    warehouse = Warehouse(WarehouseRoots.of("viewfs://all/lake"))

    assert warehouse.names("viewfs://all/lake/t") == ["d"]
    warehouse.remove_tree("viewfs://all/lake/t/d")
    assert (hdfs.lake.all_files(), hdfs.other.all_files()) == ([], ["t/d/f", "t/d/g"])
    with pytest.raises(ConfinementError):
        warehouse.remove_tree("viewfs://all/lake/other/d")


# faults


def test_a_namenode_in_safe_mode_is_a_fault_that_may_pass(hdfs: Hdfs) -> None:
    hdfs.lake.put("/wh/t/f")
    hdfs.lake.safe_mode(on=True)
    try:
        with pytest.raises(TransientError, match="SafeModeException"):
            hdfs.lake.warehouse().remove_tree(f"{hdfs.lake.address}/wh/t")
    finally:
        hdfs.lake.safe_mode(on=False)
    assert hdfs.lake.all_files() == ["t/f"]


def test_what_is_denied_is_named_and_stays(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs.lake.put("/wh/t/f")
    monkeypatch.setenv("HADOOP_USER_NAME", "another")
    hdfs_storage.client_of.cache_clear()
    try:
        warehouse, table = hdfs.lake.warehouse(), f"{hdfs.lake.address}/wh/t"
        assert warehouse.read(f"{table}/f") == b"1"
        for act in (warehouse.remove_tree, lambda where: warehouse.create(f"{where}/g", b"")):
            with pytest.raises(PermissionError, match="user=another, access=WRITE") as denied:
                act(table)
            assert "at org.apache" not in str(denied.value)
    finally:
        hdfs_storage.client_of.cache_clear()
    assert hdfs.lake.all_files() == ["t/f"]


def lose_answers(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Let each call of the client be carried out, and then fail as if its answer was lost."""
    carry_out = getattr(hdfs_native.Client, method)

    def lost(*args: object, **more: object) -> None:
        carry_out(*args, **more)
        raise OSError("RPC listener disconnected")

    monkeypatch.setattr(hdfs_native.Client, method, lost)


@pytest.mark.parametrize("act", ["create", "replace"])
def test_a_change_whose_answer_was_lost_is_done(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    hdfs.lake.put("/wh/t/f")
    warehouse, table = hdfs.lake.warehouse(), f"{hdfs.lake.address}/wh/t"
    there = warehouse.entry(f"{table}/f")
    assert there is not None
    lose_answers(monkeypatch, "rename")
    if act == "create":
        warehouse.create(f"{table}/g", b"mine")
    else:
        warehouse.replace(f"{table}/f", b"mine", there.version)
    assert warehouse.read(f"{table}/{'g' if act == 'create' else 'f'}") == b"mine"
    assert hdfs.lake.all_files() == ["t/f", "t/g"][: 2 if act == "create" else 1]


def test_a_creation_that_failed_leaves_nothing_behind(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs.lake.put("/wh/t/f")
    warehouse, table = hdfs.lake.warehouse(), f"{hdfs.lake.address}/wh/t"
    there = warehouse.entry(f"{table}/f")
    assert there is not None
    with pytest.raises(AlreadyExists):
        warehouse.create(f"{table}/f", b"mine")
    hdfs.lake.put("/wh/t/f", b"late")
    with pytest.raises(AlreadyExists):
        warehouse.replace(f"{table}/f", b"mine", there.version)
    with pytest.raises(FileNotFoundError):
        warehouse.replace(f"{table}/gone/f", b"mine")

    def refuse(*_: object, **__: object) -> None:
        raise OSError("Connection refused")

    monkeypatch.setattr(hdfs_native.Client, "rename", refuse)
    with pytest.raises(TransientError):
        warehouse.create(f"{table}/g", b"mine")
    assert hdfs.lake.all_files() == ["t/f"]


# removals


def before_removals(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another process act before the first removal is carried out."""
    carry_out, acts = hdfs_native.Client.delete, [act]

    def delete(self: hdfs_native.Client, path: str, *, recursive: bool) -> bool:
        while acts:
            acts.pop()()
        return carry_out(self, path, recursive=recursive)

    monkeypatch.setattr(hdfs_native.Client, "delete", delete)


def test_a_file_that_a_writer_puts_after_the_listing_is_left_and_reported(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "deep/b"):
        hdfs.lake.put(f"/wh/t/d/{name}")
    warehouse, table = hdfs.lake.warehouse(), f"{hdfs.lake.address}/wh/t"
    before_removals(monkeypatch, lambda: hdfs.lake.put("/wh/t/d/deep/late"))
    with warehouse.opened(table) as folder:
        assert not folder.remove_if("d", lambda _: True)
    assert hdfs.lake.all_files() == ["t/d/deep/late"]
    before_removals(monkeypatch, lambda: hdfs.lake.put("/wh/t/d/later"))
    with pytest.raises(TransientError, match="was written during the removal"):
        warehouse.remove_tree(f"{table}/d")
    assert hdfs.lake.all_files() == ["t/d/later"]


def test_a_file_of_the_same_size_that_took_a_listed_name_stays(hdfs: Hdfs) -> None:
    hdfs.lake.put("/wh/t/f")
    warehouse, table = hdfs.lake.warehouse(), f"{hdfs.lake.address}/wh/t"
    entries = warehouse.list(table)
    time.sleep(0.002)  # the clock of a NameNode has milliseconds
    hdfs.lake.put("/wh/t/f", b"2")

    assert warehouse.remove_entries(entries) == 0
    assert warehouse.read(f"{table}/f") == b"2"
    assert warehouse.remove_entries(warehouse.list(table)) == 1


def test_a_directory_is_not_removed_as_a_file(hdfs: Hdfs) -> None:
    hdfs.lake.make("/wh/t/empty")
    warehouse, table = hdfs.lake.warehouse(), f"{hdfs.lake.address}/wh/t"
    with pytest.raises(NotFound):
        warehouse.list(f"{table}/none")
    with pytest.raises(IsADirectoryError):
        warehouse.remove_files([f"{table}/empty"])
    assert warehouse.names(table) == ["empty"]
    assert warehouse.remove_if_empty(f"{table}/empty")
    assert warehouse.remove_if_empty(f"{table}/empty")
    hdfs.lake.put("/wh/t/f")
    assert not warehouse.remove_if_empty(f"{table}/f")
    assert not warehouse.remove_if_empty(table)
    assert hdfs.lake.all_files() == ["t/f"]


# moves


@pytest.fixture
def lake(hdfs: Hdfs) -> Cluster:
    hdfs.lake.put("/wh/t/d/deep/f")
    hdfs.lake.make("/wh/t/aside")
    return hdfs.lake


def test_a_directory_is_moved_with_all_that_is_in_it(lake: Cluster) -> None:
    warehouse, table = lake.warehouse(), f"{lake.address}/wh/t"
    asked: list[list[str]] = []

    def agree(found: Sequence[FileInfo]) -> bool:
        asked.append([file.name for file in found])
        return len(asked) > 1

    with warehouse.moving(table, f"{table}/aside") as move:
        assert move("d", "d", agree) is False
        assert move("d", "d 2", agree) is True
        assert move("d", "d", agree) is None
    assert asked == [["f"], ["f"]]
    assert lake.all_files() == ["t/aside/d 2/deep/f"]
    with pytest.raises(NotFound), warehouse.moving(table, f"{table}/none"):
        pass


def test_nothing_is_moved_over_a_name_not_even_an_empty_directory(lake: Cluster) -> None:
    lake.make("/wh/t/aside/d")
    table = f"{lake.address}/wh/t"
    moving = lake.warehouse().moving(table, f"{table}/aside")
    with moving as move, pytest.raises(FileExistsError):
        move("d", "d", lambda _: True)
    assert lake.all_files() == ["t/d/deep/f"]


def test_a_directory_that_changed_after_the_look_is_moved_back(lake: Cluster) -> None:
    table = f"{lake.address}/wh/t"

    def change(_: object) -> bool:
        time.sleep(0.002)
        lake.put("/wh/t/d/late")
        return True

    moving = lake.warehouse().moving(table, f"{table}/aside")
    with moving as move, pytest.raises(TransientError, match="changed during its move"):
        move("d", "d", change)
    assert lake.all_files() == ["t/d/deep/f", "t/d/late"]
