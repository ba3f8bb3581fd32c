"""A warehouse on a real S3 server: what is removed, and what a fault of the store is taken for."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from support.s3 import BUCKET, Request, S3Server, s3_server
from tidegate.errors import FormatError, PermanentError
from tidegate.runtime.retry import is_retriable
from tidegate.storage import NotFound
from tidegate.tables.warehouse import Warehouse

TABLE = f"s3://{BUCKET}/wh/t"


@pytest.fixture
def server() -> Generator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def warehouse(server: S3Server) -> Warehouse:
    return server.warehouse()


def is_removal(request: Request) -> bool:
    method, path = request
    return method == "DELETE" or (method == "POST" and "delete" in path)


@pytest.mark.parametrize("name", ["delta", "p=[a]"])
def test_a_file_that_a_writer_puts_after_the_listing_is_left_and_reported(
    server: S3Server, warehouse: Warehouse, name: str
) -> None:
    server.put(f"wh/t/{name}/a", f"wh/t/{name}/deep/b")
    written: list[str] = []

    def write_late(request: Request) -> None:
        if is_removal(request) and not written:
            written.append(f"wh/t/{name}/deep/late")
            server.put(*written)

    def accept(_: object) -> bool:
        server.put(f"wh/t/{name}/new")
        return True

    server.before = write_late
    with warehouse.opened(TABLE) as folder:
        assert not folder.remove_if(name, accept)
    assert server.keys() == [f"wh/t/{name}/deep/late", f"wh/t/{name}/new"]


def test_a_directory_goes_with_its_markers(server: S3Server, warehouse: Warehouse) -> None:
    server.put("wh/t/d/", "wh/t/d/a", "wh/t/d/deep/", "wh/t/d/[x]/*", "wh/t/d-2/a")
    with warehouse.opened(TABLE) as folder:
        assert folder.remove_if("d", lambda _: True)
        assert folder.files_below("d") is None
    assert server.keys() == ["wh/t/d-2/a"]


def test_more_keys_go_than_a_request_may_have(server: S3Server, warehouse: Warehouse) -> None:
    server.put(*(f"wh/t/d/{number}" for number in range(1001)))
    warehouse.remove_tree(f"{TABLE}/d")
    assert server.keys() == []


def test_a_key_beside_a_directory_of_its_name_goes(server: S3Server, warehouse: Warehouse) -> None:
    server.put("wh/t/d", "wh/t/d/a", "wh/t/e", "wh/t/e/a")
    assert warehouse.remove_files([f"{TABLE}/d"]) == 1
    assert server.keys() == ["wh/t/d/a", "wh/t/e", "wh/t/e/a"]
    warehouse.remove_tree(f"{TABLE}/e")
    assert server.keys() == ["wh/t/d/a"]


def test_a_key_with_an_empty_name_is_an_error_and_is_not_removed_unseen(
    server: S3Server, warehouse: Warehouse
) -> None:
    server.put("wh/t/d/a", "wh/t/d//b")
    with warehouse.opened(TABLE) as folder, pytest.raises(FormatError, match="empty name"):
        folder.remove_if("d", lambda _: True)
    assert server.keys() == ["wh/t/d//b", "wh/t/d/a"]


def test_a_missing_bucket_is_an_error_not_an_empty_directory(server: S3Server) -> None:
    warehouse = server.warehouse("s3://missing")
    for act in (warehouse.list, warehouse.read, warehouse.remove_tree):
        with pytest.raises(PermanentError, match="bucket"):
            act("s3://missing/wh/t")
    with pytest.raises(NotFound):
        server.warehouse().list(TABLE)


def test_an_endpoint_that_refuses_connections_is_a_fault_that_may_pass() -> None:
    with s3_server() as server:
        warehouse = server.warehouse()
    for act in (warehouse.list, warehouse.read, warehouse.remove_tree):
        with pytest.raises(Exception, match="Could not connect") as error:
            act(TABLE)
        assert is_retriable(error.value)


def test_a_creation_is_refused_by_an_existing_file_only(
    server: S3Server, warehouse: Warehouse
) -> None:
    del server
    warehouse.create(f"{TABLE}/a", b"mine")
    assert warehouse.read(f"{TABLE}/a") == b"mine"
