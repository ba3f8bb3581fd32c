"""A warehouse on a real S3 server: what is removed, and what a fault of the store is taken for."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event

import pytest

from support.s3 import BUCKET, Request, S3Server
from support.waiting import wait_for
from tidegate.embedded.process import free_ports
from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.runtime.retry import is_retriable
from tidegate.storage import NotFound
from tidegate.tables.warehouse import AlreadyExists, Warehouse, WarehouseRoots
from tidegate.tables.warehouse.s3_versions import VersionedS3

TABLE = f"s3://{BUCKET}/wh/t"


@pytest.fixture
def server(s3: S3Server) -> S3Server:
    return s3


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
    assert server.all_keys() == [f"wh/t/{name}/deep/late", f"wh/t/{name}/new"]


def test_a_directory_goes_with_its_markers(server: S3Server, warehouse: Warehouse) -> None:
    server.put("wh/t/d/", "wh/t/d/a", "wh/t/d/deep/", "wh/t/d/[x]/*", "wh/t/d-2/a")
    with warehouse.opened(TABLE) as folder:
        assert folder.remove_if("d", lambda _: True)
        assert folder.files_below("d") is None
    assert server.all_keys() == ["wh/t/d-2/a"]


def test_more_keys_go_than_a_request_may_have(server: S3Server, warehouse: Warehouse) -> None:
    server.put_many(f"wh/t/d/{number}" for number in range(1001))
    warehouse.remove_tree(f"{TABLE}/d")
    assert server.all_keys() == []


def test_a_key_beside_a_directory_of_its_name_goes(server: S3Server, warehouse: Warehouse) -> None:
    server.put("wh/t/d", "wh/t/d/a", "wh/t/e", "wh/t/e/a")
    assert warehouse.remove_files([f"{TABLE}/d"]) == 1
    assert server.all_keys() == ["wh/t/d/a", "wh/t/e", "wh/t/e/a"]
    warehouse.remove_tree(f"{TABLE}/e")
    assert server.all_keys() == ["wh/t/d/a"]


def test_a_key_with_an_empty_name_is_an_error_and_is_not_removed_unseen(
    server: S3Server, warehouse: Warehouse
) -> None:
    server.put("wh/t/d/a", "wh/t/d//b")
    with warehouse.opened(TABLE) as folder, pytest.raises(FormatError, match="empty name"):
        folder.remove_if("d", lambda _: True)
    assert server.all_keys() == ["wh/t/d//b", "wh/t/d/a"]


def test_a_missing_bucket_is_an_error_not_an_empty_directory(server: S3Server) -> None:
    warehouse = server.warehouse("s3://missing")
    for act in (warehouse.list, warehouse.read, warehouse.remove_tree):
        with pytest.raises(PermanentError, match="bucket"):
            act("s3://missing/wh/t")
    with pytest.raises(NotFound):
        server.warehouse().list(TABLE)


def test_an_endpoint_that_refuses_connections_is_soon_a_fault_that_may_pass(
    server: S3Server,
) -> None:
    server.endpoint = f"http://127.0.0.1:{free_ports()[0]}"
    warehouse = server.warehouse()
    with pytest.raises(TransientError, match="error sending request"):
        warehouse.list(TABLE)
    with pytest.raises(TransientError, match="error sending request"):
        warehouse.create(f"{TABLE}/a", b"")


def test_threads_that_ask_a_store_that_is_away_do_not_wait_for_each_other(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Barrier(2)

    def is_away(_: VersionedS3) -> bool:
        both.wait(10)
        raise TransientError("away")

    def ask(_: int) -> None:
        with pytest.raises(TransientError, match="away"):
            warehouse.can(TABLE)

    monkeypatch.setattr(VersionedS3, "_has_versions", is_away)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, range(2)))


@pytest.mark.parametrize("act", ["create", "replace"])
def test_a_change_whose_answer_was_lost_is_done(
    server: S3Server, warehouse: Warehouse, act: str
) -> None:
    """The client repeats the request, and the server refuses it by the success of the first."""
    server.put("wh/t/f", "wh/t/twin")
    there = warehouse.entry(f"{TABLE}/f")
    assert there is not None
    lost: list[Request] = []

    def lose_first(request: Request) -> bool:
        if request[0] == "PUT" and not lost:
            lost.append(request)
            return True
        return False

    server.loses_answer = lose_first
    if act == "create":
        warehouse.create(f"{TABLE}/new", b"mine")
        assert warehouse.read(f"{TABLE}/new") == b"mine"
        with pytest.raises(AlreadyExists):  # the same content, of another process
            warehouse.create(f"{TABLE}/twin", b"1")
    else:
        warehouse.replace(f"{TABLE}/f", b"mine", there.version)
        assert warehouse.read(f"{TABLE}/f") == b"mine"
    assert len(lost) == 1


def test_a_server_that_does_not_answer_is_waited_for_up_to_the_deadline(server: S3Server) -> None:
    options = {f"s3://{BUCKET}": {"endpoint": server.endpoint, "timeout": 0.3}}
    warehouse = Warehouse(WarehouseRoots.of(f"s3://{BUCKET}/wh"), options)
    go_on = Event()
    server.before = lambda _: go_on.wait(60)
    try:
        for act in (warehouse.list, warehouse.read, warehouse.remove_tree):
            with pytest.raises(TransientError):
                act(TABLE)
    finally:
        go_on.set()


def test_nothing_is_missed_while_the_server_slows_every_other_request_down(
    server: S3Server, warehouse: Warehouse
) -> None:
    server.put_many(f"wh/t/d/{number}" for number in range(1100))
    requests = count()
    server.answers = lambda _: "503 Slow Down" if next(requests) % 2 else None
    warehouse.create(f"{TABLE}/e", b"1")
    assert len(list(warehouse.walk(f"{TABLE}/d"))) == 1100
    warehouse.remove_tree(f"{TABLE}/d")
    server.answers = lambda _: None
    assert server.all_keys() == ["wh/t/e"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param("403 Access Denied", PermissionError, id="denied"),
        pytest.param("400 Expired Token", PermissionError, id="credentials"),
        pytest.param("503 Slow Down", TransientError, id="throttled"),
        pytest.param("500 Internal Error", TransientError, id="a fault of the server"),
        pytest.param("301 Permanent Redirect", PermanentError, id="another region"),
        pytest.param("404 No Such Bucket", PermanentError, id="the wrong place"),
    ],
)
def test_a_refusal_is_an_error_of_its_kind_in_every_call(
    server: S3Server, warehouse: Warehouse, answer: str, error: type[Exception]
) -> None:
    server.put("wh/t/a", "wh/t/d/")
    file = f"{TABLE}/a"
    entry = warehouse.list(TABLE)[0]
    acts: list[Callable[[], object]] = [
        lambda: warehouse.list(TABLE),
        lambda: list(warehouse.walk(TABLE)),
        lambda: warehouse.read(file),
        lambda: warehouse.create(f"{file}2", b""),
        lambda: warehouse.replace(file, b"2"),
        lambda: warehouse.replace(file, b"2", entry.version),
        lambda: warehouse.remove_files([file]),
        lambda: warehouse.remove_tree(TABLE),
    ]
    server.answers = lambda _: answer
    for act in acts[:1] if error is TransientError else acts:  # which the client repeats
        with pytest.raises(error) as raised:
            act()
        assert is_retriable(raised.value) == (error is not PermanentError)
    server.answers = lambda _: None
    assert server.all_keys() == ["wh/t/a", "wh/t/d/"]


def test_a_file_that_may_not_be_removed_is_an_error_and_stays(
    server: S3Server, warehouse: Warehouse
) -> None:
    keys = [f"wh/t/d/{number:04d}" for number in range(1100)]
    server.put_many([*keys, "wh/t/d/0500-precious"])
    rule = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:DeleteObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/*-precious",
    }
    server.client().put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Statement": [rule]}))
    try:
        for act in (
            lambda: warehouse.remove_tree(f"{TABLE}/d"),
            lambda: warehouse.remove_files([f"{TABLE}/d/0500-precious"]),
        ):
            with pytest.raises(PermissionError, match="0500-precious"):
                act()
        with warehouse.opened(TABLE) as folder, pytest.raises(PermissionError):
            folder.remove_if("d", lambda _: True)
    finally:
        server.client().delete_bucket_policy(Bucket=BUCKET)
    assert "wh/t/d/0500-precious" in server.all_keys()
    warehouse.remove_tree(f"{TABLE}/d")
    assert server.all_keys() == []


def test_a_removal_whose_server_goes_away_half_way_is_not_done_and_can_be_repeated(
    server: S3Server, warehouse: Warehouse
) -> None:
    server.put_many(f"wh/t/d/{number}" for number in range(2500))
    removals = count()

    def fail_after_one(request: Request) -> str | None:
        if not is_removal(request) or not next(removals):
            return None
        wait_for("the first removal", lambda: len(server.all_keys()) < 2500)
        return "503 Slow Down"

    assert warehouse.limits(TABLE)  # the server was tried before
    server.answers = fail_after_one
    with pytest.raises(TransientError):
        warehouse.remove_tree(f"{TABLE}/d")
    server.answers = lambda _: None
    assert 0 < len(server.all_keys()) < 2500
    warehouse.remove_tree(f"{TABLE}/d")
    assert server.all_keys() == []


def test_in_a_bucket_with_versions_what_is_removed_stays_behind_a_delete_marker(
    s3: S3Server,
) -> None:
    client, bucket = s3.client(), "versioned"
    client.create_bucket(Bucket=bucket)
    warehouse, table = s3.warehouse(f"s3://{bucket}"), f"s3://{bucket}/wh/t"
    assert not [limit for limit in warehouse.limits(table) if "versions" in limit]
    enabled = {"Status": "Enabled"}
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
    for content in (b"one", b"two"):
        warehouse.create(f"{table}/d/f", content)
        with warehouse.opened(table) as folder:
            assert folder.remove_if("d", lambda _: True)
            assert folder.files_below("d") is None

    left = client.list_object_versions(Bucket=bucket, Prefix="wh/t/")
    assert [version["Size"] for version in left["Versions"]] == [3, 3]
    assert len(left["DeleteMarkers"]) == 2
    assert [limit for limit in warehouse.limits(table) if "frees no space" in limit]
