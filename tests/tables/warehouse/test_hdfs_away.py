"""HDFS without a cluster: names that mean none, NameNodes that are away."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from socket import create_server
from threading import Event, Thread, current_thread

import pytest

from support.counting import Requests
from tables.warehouse.conftest import Configure
from tidegate.compute.parallel_map import ThreadMap
from tidegate.embedded.process import free_ports
from tidegate.errors import ConfigError, ConfinementError, PermanentError, TransientError
from tidegate.storage import Storage, normalise
from tidegate.storage.hdfs import HdfsStore
from tidegate.tables.warehouse import Warehouse, WarehouseRoots


def test_without_a_default_a_cluster_must_be_named(configure: Configure) -> None:
    for settings in ({}, {"fs.defaultFS": "s3a://lake"}):
        configure(**settings)
        with pytest.raises(ConfigError, match=r"no fs\.defaultFS"):
            Storage().names("hdfs:///wh")


def test_the_default_port_may_be_written() -> None:
    assert normalise("hdfs://nn:8020/wh/") == normalise("HDFS://nn/wh") == "hdfs://nn/wh"
    assert normalise("hdfs://nn:9000/wh") == "hdfs://nn:9000/wh"


MOUNTS = {
    "fs.defaultFS": "viewfs://lake",
    "fs.viewfs.mounttable.lake.link./w": "hdfs://nn:8020/warehouse/",
    "fs.viewfs.mounttable.lake.link./w/sales": "hdfs://other/sales",
    "fs.viewfs.mounttable.lake.link./s3.old": "s3a://bucket",
    "fs.viewfs.mounttable.lake.linkFallback": "hdfs://nn/",
    "fs.viewfs.mounttable.lake.homedir": "/home",
    "fs.viewfs.mounttable.default.linkMergeSlash": "hdfs://all/below",
}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("viewfs://lake/w/t", "hdfs://nn/warehouse/t"),
        ("viewfs:///w/t", "hdfs://nn/warehouse/t"),
        ("VIEWFS:/w//./t/", "hdfs://nn/warehouse/t"),
        ("viewfs://lake/w", "hdfs://nn/warehouse"),
        ("viewfs://lake/w/sales/t", "hdfs://other/sales/t"),
        ("viewfs://lake/w/sales2/t", "hdfs://nn/warehouse/sales2/t"),
        ("viewfs://lake/s3.old/t", "s3://bucket/t"),
        ("viewfs://lake/wide/t", "hdfs://nn/wide/t"),
        ("viewfs://default/t", "hdfs://all/below/t"),
    ],
)
def test_a_location_of_viewfs_is_that_behind_its_mount(
    configure: Configure, location: str, expected: str
) -> None:
    configure(**MOUNTS)
    assert normalise(location) == expected


def test_a_location_of_viewfs_that_leads_nowhere_is_refused(configure: Configure) -> None:
    configure(**{"fs.viewfs.mounttable.lake.link./w": "hdfs://nn/warehouse"})
    for location in ("viewfs://lake/x", "viewfs://lake/wide", "viewfs://lake", "viewfs://other/w"):
        with pytest.raises(ConfigError, match=r"mounted nowhere: see core-site\.xml"):
            WarehouseRoots.of(location)
    roots = WarehouseRoots.of("viewfs://lake/w")
    for location in ("viewfs://lake/w/../t", "viewfs://lake/x/t", "hdfs://nn/t"):
        with pytest.raises(ConfinementError):
            roots.below(location)


@pytest.mark.parametrize(
    ("mount", "target"),
    [
        ("linkNfly.minReplication=1./w", "hdfs://a/w,hdfs://b/w"),
        ("linkRegex.#.^/w", "hdfs://a/w"),
        ("link./w", "viewfs://other/w"),
    ],
)
def test_a_mount_that_is_more_than_a_name_for_a_directory_is_refused(
    configure: Configure, mount: str, target: str
) -> None:
    configure(**{f"fs.viewfs.mounttable.lake.{mount}": target})
    with pytest.raises(ConfigError, match=r"viewfs://lake has a mount "):
        WarehouseRoots.of("viewfs://lake/w")


@pytest.mark.parametrize("root", ["hdfs://nn", "hdfs://nn:8020/", "hdfs:/", "hdfs:///"])
def test_a_complete_cluster_is_refused_as_a_root(root: str, configure: Configure) -> None:
    for settings in ({}, {"fs.defaultFS": "hdfs://nn"}):
        configure(**settings)
        with pytest.raises(ConfigError, match="entire file system"):
            WarehouseRoots.of(root)


@pytest.mark.parametrize("authority", ["a#b", "a?b", "user@a", "a b", "a:b", "[a"])
def test_an_authority_that_a_url_parser_would_read_as_another_is_refused(authority: str) -> None:
    for storage in (Storage(), Warehouse(WarehouseRoots.of(f"hdfs://{authority}/wh"))):
        with pytest.raises(ConfigError, match="not the name of a cluster"):
            storage.names(f"hdfs://{authority}/wh/t")


def test_a_namenode_that_refuses_connections_is_soon_a_fault_that_may_pass() -> None:
    address = f"hdfs://127.0.0.1:{free_ports()[0]}"
    warehouse = Warehouse(WarehouseRoots.of(f"{address}/wh"))
    began = time.monotonic()
    for act in (warehouse.names, warehouse.read, warehouse.remove_tree):
        with pytest.raises(TransientError, match="refused"):
            act(f"{address}/wh/t")
    assert time.monotonic() - began < 30


def test_a_namenode_that_does_not_answer_is_waited_for_up_to_the_deadline() -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        place = f"hdfs://127.0.0.1:{silent.getsockname()[1]}"
        warehouse = Warehouse(WarehouseRoots.of(f"{place}/wh"), {place: {"timeout": 0.3}})
        for act in (warehouse.names, warehouse.read, warehouse.remove_tree):
            with pytest.raises(TransientError, match=r"did not answer within 0\.3 s"):
                act(f"{place}/wh/t")
        with pytest.raises(TransientError, match="did not answer"):
            warehouse.create(f"{place}/wh/t/f", b"")


def test_after_a_call_that_did_not_answer_no_other_of_its_batch_is_made() -> None:
    store, answers = HdfsStore("nn", timeout=0.1), Event()
    made: list[int] = []
    threads: list[Thread] = []

    def call(number: int) -> None:
        made.append(number)
        threads.append(current_thread())
        if number == 2:
            answers.wait()

    with pytest.raises(TransientError, match=r"did not answer within 0\.1 s"):
        store.call_all(call, range(4))
    answers.set()
    threads[0].join(60)
    assert not threads[0].is_alive()
    assert made == [0, 1, 2]


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "at once"])
def test_after_a_call_that_did_not_answer_no_other_of_the_call_around_it_is_made(
    in_order: bool,  # noqa: FBT001 - a case
) -> None:
    """Such as the removal of a directory, which is a listing and some removals."""
    store, made = HdfsStore("nn", timeout=0.1), list[str]()
    answers, ended = Event(), Event()

    def call(name: str) -> None:
        made.append(name)
        if name == "listing":
            answers.wait()
            raise FileNotFoundError(name)

    def directory(number: int) -> None:
        try:
            with suppress(FileNotFoundError):
                store.call_all(call, ["listing"] * (1 if in_order else 20), in_order=in_order)
            store.call_all(call, [f"removal {number}"])
        finally:
            ended.set()

    with pytest.raises(TransientError, match=r"did not answer within 0\.1 s"):
        store.call_all(directory, range(2))
    answers.set()
    assert ended.wait(60)
    assert set(made) == {"listing"}


def test_a_batch_may_take_longer_than_one_call() -> None:
    store = HdfsStore("nn", timeout=1.0)

    def call(_: int) -> None:
        time.sleep(0.25)

    def at_once(count: int) -> list[None]:
        return store.call_all(call, range(count), in_order=False)

    assert store.call_all(call, range(6)) == [None] * 6
    assert store.call_all(at_once, [6, 24]) == [[None] * 6, [None] * 24]


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_calls_are_under_way_than_allowed(most: int) -> None:
    """Whether threads share a store, or have one each, as on Spark."""
    requests = Requests()

    def directory(place: str) -> list[None]:
        store = HdfsStore(place, max_concurrency=most)

        def call(_: int) -> None:
            store.call(f"hdfs://{place}/wh", requests.make)

        def nested(_: int) -> None:
            store.call_all(call, range(20), in_order=False)

        return store.call_all(nested, range(2)) + store.call_all(call, range(20), in_order=False)

    assert ThreadMap(4).map(directory, ["nn"] * 4) == [[None] * 22] * 4
    assert (requests.peak, requests.count) == (most, 240)


def test_a_call_that_is_given_up_holds_up_no_other() -> None:
    store, answers = HdfsStore("nn", timeout=0.1, max_concurrency=1), Event()
    acts: list[Callable[[], object]] = [
        lambda: store.call_all(lambda _: answers.wait(), range(20), in_order=False),
        lambda: store.call_all(lambda _: store.call_all(lambda _: answers.wait(), [1]), [1]),
    ]
    for act in acts:
        with pytest.raises(TransientError, match="did not answer"):
            act()
        assert store.call("hdfs://nn/wh", lambda: "next") == "next"
    answers.set()


def test_a_host_without_an_address_is_a_fault_and_no_cluster_at_all_is_not(
    configure: Configure,
) -> None:
    configure("hdfs-site.xml", **{"dfs.ha.namenodes.empty": "one"})
    with pytest.raises(TransientError):
        Storage().names("hdfs://no-such-host.invalid/wh")
    with pytest.raises(PermanentError, match=r"hdfs://empty: .*No NameNode"):
        Storage().names("hdfs://empty/wh")
