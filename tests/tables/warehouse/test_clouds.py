"""Google's and Azure's stores, on emulators: faults, conditions and the markers of directories."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count
from typing import TYPE_CHECKING

import pytest

from support.counting import Requests
from tidegate.compute.parallel_map import ThreadMap
from tidegate.embedded.process import free_ports
from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.tables.warehouse import AlreadyExists, Warehouse, WarehouseRoots

if TYPE_CHECKING:
    from support.clouds import CloudServer
    from support.s3 import Request

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]  # fake-gcs-server is built once


def serve(name: str) -> Generator[CloudServer]:
    from support.clouds import cloud_server  # noqa: PLC0415 - the clients are extras

    with cloud_server(name) as server:
        yield server


@pytest.fixture(params=["fake-gcs", "azurite"])
def cloud(request: pytest.FixtureRequest) -> Generator[CloudServer]:
    yield from serve(request.param)


@pytest.fixture
def azurite() -> Generator[CloudServer]:
    yield from serve("azurite")


@pytest.fixture
def fake_gcs() -> Generator[CloudServer]:
    yield from serve("fake-gcs")


@pytest.mark.parametrize("act", ["create", "replace"])
def test_a_change_whose_answer_was_lost_is_done(cloud: CloudServer, act: str) -> None:
    cloud.put_many(["wh/t/f", "wh/t/twin"])
    warehouse, table = cloud.warehouse(), f"{cloud.place}/wh/t"
    there = warehouse.entry(f"{table}/f")
    assert there is not None
    lost: list[Request] = []

    def lose_first(request: Request) -> bool:
        if request[0] in {"PUT", "POST"} and not lost:
            lost.append(request)
            return True
        return False

    cloud.loses_answer = lose_first
    if act == "create":
        warehouse.create(f"{table}/new", b"mine")
        assert warehouse.read(f"{table}/new") == b"mine"
        with pytest.raises(AlreadyExists):  # the same content, of another process
            warehouse.create(f"{table}/twin", b"1")
    else:
        warehouse.replace(f"{table}/f", b"mine", there.version)
        assert warehouse.read(f"{table}/f") == b"mine"
    assert len(lost) == 1


def test_a_removal_that_is_denied_is_an_error_and_the_file_stays(cloud: CloudServer) -> None:
    cloud.put_many(["wh/t/d/a", "wh/t/d/b", "wh/t/d/precious"])
    warehouse, table = cloud.warehouse(), f"{cloud.place}/wh/t"
    cloud.answers = lambda request: (
        "403 AuthorizationPermissionMismatch"
        if request[0] == "DELETE" and "precious" in request[1]
        else None
    )

    for act in (
        lambda: warehouse.remove_tree(f"{table}/d"),
        lambda: warehouse.remove_files([f"{table}/d/precious"]),
    ):
        with pytest.raises(PermissionError):
            act()
    assert "wh/t/d/precious" in cloud.all_keys()


def test_a_file_that_a_writer_puts_after_the_listing_is_left_and_reported(
    cloud: CloudServer,
) -> None:
    cloud.put_many(["wh/t/d/a", "wh/t/d/deep/b"])

    def write_late(request: Request) -> None:
        if request[0] == "DELETE":
            cloud.put_one("wh/t/d/deep/late")

    cloud.before = write_late
    with cloud.warehouse().opened(f"{cloud.place}/wh/t") as folder:
        assert not folder.remove_if("d", lambda _: True)
    assert cloud.all_keys() == ["wh/t/d/deep/late"]


def test_nothing_is_missed_while_the_server_is_busy_at_every_other_request(
    cloud: CloudServer,
) -> None:
    cloud.put_many(f"wh/t/d/{number}" for number in range(20))
    warehouse, requests = cloud.warehouse(), count()
    cloud.answers = lambda _: "503 ServerBusy" if next(requests) % 3 == 0 else None
    warehouse.create(f"{cloud.place}/wh/t/e", b"1")
    assert len(list(warehouse.walk(f"{cloud.place}/wh/t/d"))) == 20
    warehouse.remove_tree(f"{cloud.place}/wh/t/d")
    assert cloud.all_keys() == ["wh/t/e"]


def test_an_endpoint_that_refuses_connections_is_a_fault_that_may_pass(cloud: CloudServer) -> None:
    away = {"endpoint": f"http://127.0.0.1:{free_ports()[0]}/devstoreaccount1", "timeout": 4.0}
    warehouse = Warehouse(WarehouseRoots.of(f"{cloud.place}/wh"), {cloud.place: away})
    for act in (warehouse.list, lambda at: warehouse.create(f"{at}/a", b"")):
        with pytest.raises(TransientError):
            act(f"{cloud.place}/wh/t")


def test_a_missing_container_is_an_error_not_an_empty_directory(azurite: CloudServer) -> None:
    place = azurite.place.replace("abfss://", "abfss://not")
    options = {place: azurite.options()[azurite.place]}
    warehouse = Warehouse(WarehouseRoots.of(f"{place}/wh"), options)
    for act in (warehouse.list, warehouse.read, warehouse.remove_tree):
        with pytest.raises(PermanentError, match=r"container does not exist|ContainerNotFound"):
            act(f"{place}/wh/t")


def test_google_is_asked_to_remove_the_generation_that_was_listed(fake_gcs: CloudServer) -> None:
    """The emulator ignores the condition."""
    fake_gcs.put_many(["wh/t/d/a"])
    warehouse, seen = fake_gcs.warehouse(), list[str]()
    [there] = warehouse.list(f"{fake_gcs.place}/wh/t/d")
    fake_gcs.before = lambda request: seen.append(request[1]) if request[0] == "DELETE" else None

    warehouse.remove_tree(f"{fake_gcs.place}/wh/t/d")
    assert [path.partition("?")[2] for path in seen] == [
        f"ifGenerationMatch={there.version}&prettyPrint=false"
    ]


def test_google_s_directories_go_with_their_markers(fake_gcs: CloudServer) -> None:
    for key in ("wh/t/d/", "wh/t/d/deep/", "wh/t/d/none/"):
        fake_gcs.put_one(key, b"")
    fake_gcs.put_many(["wh/t/d/a", "wh/t/d-2/a"])
    warehouse, table = fake_gcs.warehouse(), f"{fake_gcs.place}/wh/t"

    assert sorted(entry.name for entry in warehouse.list(f"{table}/d")) == ["a", "deep", "none"]
    with warehouse.opened(table) as folder:
        assert folder.remove_if("d", lambda found: [e.name for e in found] == ["a"])
    assert fake_gcs.all_keys() == ["wh/t/d-2/a"]


def test_azure_s_directories_are_not_files_and_go_with_what_is_in_them(
    azurite: CloudServer,
) -> None:
    for key in ("wh", "wh/t", "wh/t/d", "wh/t/d/deep", "wh/t/d/deep/none", "wh/t/left"):
        azurite.put_one(key, b"", hdi_isfolder="true")
    azurite.put_many(["wh/t/d/a", "wh/t/d-2/a"])
    azurite.put_one("wh/t/d/empty", b"")
    warehouse, table = azurite.warehouse(), f"{azurite.place}/wh/t"

    listed = sorted(warehouse.list(table))
    assert [(e.name, e.is_dir) for e in listed] == [("d", True), ("d-2", True), ("left", True)]
    assert {e.path for e in listed} == {f"{table}/d", f"{table}/d-2", f"{table}/left"}
    assert warehouse.list(f"{table}/left") == []
    assert warehouse.entry(f"{table}/d") is None
    assert sorted(e.name for e in warehouse.walk(table)) == ["a", "a", "empty"]
    with warehouse.opened(table) as folder:
        assert folder.remove_if("d", lambda found: len(found) == 2)
        assert folder.files_below("d") is None
    assert sorted(azurite.all_keys()) == ["wh", "wh/t", "wh/t/d-2/a", "wh/t/left"]


@pytest.mark.parametrize("key", ["wh/t/d/", "wh/t/a."])
def test_what_no_path_can_name_on_azure_is_refused_and_stays(
    azurite: CloudServer, key: str
) -> None:
    azurite.put_one(key)
    azurite.put_one("wh/t/d/f")
    warehouse, table = azurite.warehouse(), f"{azurite.place}/wh/t"
    with pytest.raises(FormatError):
        warehouse.remove_tree(table)
    assert key in azurite.all_keys()
    with pytest.raises(FormatError, match="backslash"):
        warehouse.remove_files([f"{table}/d\\f"])
    assert "wh/t/d/f" in azurite.all_keys() or key == "wh/t/a."


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_requests_are_under_way_than_allowed(cloud: CloudServer, most: int) -> None:
    table, requests = f"{cloud.place}/wh/t", Requests()
    cloud.put_many(f"wh/t/{name}/{number}" for name in "abc" for number in range(20))
    options = {cloud.place: {**cloud.options()[cloud.place], "max_concurrency": most}}
    warehouse = Warehouse(WarehouseRoots.of(f"{cloud.place}/wh"), options)

    def of_objects(act: Callable[[], None]) -> Callable[[Request], None]:
        # Google's client asks for the bucket once, on a thread of its own, to trace calls
        return lambda request: None if f"/b/{cloud.bucket}?" in request[1] else act()

    cloud.before, cloud.loses_answer = of_objects(requests.begin), of_objects(requests.end)
    warehouse.walk_each(table, list("abc"), ThreadMap())
    ThreadMap().map(warehouse.remove_tree, [f"{table}/{name}" for name in "abc"])
    assert cloud.all_keys() == []
    assert requests.peak == most
