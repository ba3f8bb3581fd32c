"""Directories that move by delete markers, on real S3 servers with versions."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from threading import Barrier, Semaphore
from typing import Any, cast

import pytest

from support.counting import Requests
from support.versioned import BUCKET, TABLE, Kept, kept_bucket
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.storage import parallel
from tidegate.tables.warehouse import MayGo, Moved, Warehouse, s3_files
from tidegate.tables.warehouse.s3_versions import VersionedS3

ASIDE = f"{TABLE}/aside"
DAYS_3 = timedelta(days=3)


@pytest.fixture(
    params=["moto", pytest.param("minio", marks=[pytest.mark.full, pytest.mark.timeout(1200)])]
)
def kept(request: pytest.FixtureRequest) -> Generator[Kept]:
    with kept_bucket(str(request.param)) as bucket:
        yield bucket


def always(_: object) -> bool:
    return True


def move(kept: Kept, name: str, may_go: MayGo = always) -> bool | None:
    with kept.warehouse().moving(TABLE, ASIDE) as hide:
        return hide(name, name, may_go)


def move_back(kept: Kept, name: str) -> bool | None:
    with kept.warehouse().moving_back(ASIDE, TABLE) as show:
        return show(name, name, always)


def moved(warehouse: Warehouse, name: str) -> Moved | None:
    [found] = warehouse.moved(ASIDE, [name], TABLE, ThreadMap())
    return found


def in_table(kept: Kept) -> list[str]:
    return [key for key in kept.files() if not key.startswith("aside/")]


def at_step(number: int, act: Callable[[], object]) -> Callable[[int], None]:
    def run(step: int) -> None:
        if step == number:
            act()

    return run


def test_a_bucket_is_asked_whether_it_has_versions(kept: Kept) -> None:
    assert kept.warehouse().can(TABLE).versions
    kept.keep_versions("Suspended")
    assert not kept.warehouse().can(TABLE).versions
    with pytest.raises(PermanentError, match="a bucket without versions"):
        move(kept, "d")


def test_an_object_that_is_replaced_during_a_move_is_shown_again(kept: Kept) -> None:
    kept.build({"d": 5})
    write = at_step(2, lambda: kept.put("d/bucket_00000", b"by another"))  # the list is there
    with kept.warehouse(write).moving(TABLE, ASIDE) as hide:
        assert hide("d", "d", always) is False
    assert kept.files()["d/bucket_00000"] == len(b"by another")
    with pytest.raises(FileExistsError, match="bucket_00000"):
        move_back(kept, "d")
    assert kept.files()["d/bucket_00000"] == len(b"by another")


def test_a_move_that_fails_in_part_shows_again_what_was_written_meanwhile(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.build({"d": 5})
    warehouse = kept.warehouse()
    store = cast("VersionedS3", warehouse._changes(TABLE))
    assert not store.conditions.many  # it hides an object that took the name
    delete = store.clients.boto.delete_objects

    def in_part(*, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803 - S3's
        kept.put("d/bucket_00000", b"by another")
        monkeypatch.setattr(store.clients.boto, "delete_objects", delete)
        names = Delete["Objects"]
        failed = [name for name in names if name["Key"].endswith("_version")]
        done = [name for name in names if name not in failed]
        answer = delete(Bucket=Bucket, Delete={**Delete, "Objects": done})
        assert len(failed) == 1
        return {**answer, "Errors": [{"Key": failed[0]["Key"], "Code": "InternalError"}]}

    monkeypatch.setattr(store.clients.boto, "delete_objects", in_part)
    with warehouse.moving(TABLE, ASIDE) as hide, pytest.raises((TransientError, OSError)):
        hide("d", "d", always)
    assert kept.files()["d/bucket_00000"] == len(b"by another")


def test_an_object_that_appears_during_a_move_stays_and_is_reported(kept: Kept) -> None:
    kept.build({"d": 5})
    write = at_step(3, lambda: kept.put("d/late", b"late"))
    with kept.warehouse(write).moving(TABLE, ASIDE) as hide:
        assert hide("d", "d", always) is False
    found = moved(kept.warehouse(), "d")
    assert found is not None
    assert (in_table(kept), found.is_partly_back) == (["d/late"], False)
    assert move(kept, "d") is True
    assert (in_table(kept), moved(kept.warehouse(), "d")) == ([], Moved(3, 15, is_partly_back=True))


def test_an_object_that_was_removed_twice_comes_back(kept: Kept) -> None:
    """As after a request whose answer was lost: a repeated removal leaves another marker."""
    kept.build({"d": 5})
    before = kept.files()
    assert move(kept, "d")
    kept.client.delete_object(Bucket=BUCKET, Key="wh/t/d/bucket_00000")
    assert move_back(kept, "d")
    assert kept.files() == before


def test_a_marker_below_an_older_version_stays(kept: Kept) -> None:
    """The end removes no marker that hides the version of another."""
    older = kept.put("d/f", b"older")
    kept.client.delete_object(Bucket=BUCKET, Key="wh/t/d/f")
    kept.put("d/f", b"moved")
    assert move(kept, "d")
    kept.warehouse().remove_moved(f"{ASIDE}/d", f"{TABLE}/d")
    left = [(id_, is_marker) for _, id_, is_marker in kept.versions("d/f")]
    assert (older, False) in left
    assert len([1 for _, is_marker in left if not is_marker]) == 1
    assert in_table(kept) == []


def test_a_version_that_came_back_is_not_removed(kept: Kept) -> None:
    kept.build({"d": 5})
    assert move(kept, "d")
    list_key = "wh/t/aside/d.versions.json"
    content = kept.client.get_object(Bucket=BUCKET, Key=list_key)["Body"].read()
    assert move_back(kept, "d")
    before = kept.files()
    kept.client.put_object(Bucket=BUCKET, Key=list_key, Body=content)
    kept.warehouse().remove_moved(f"{ASIDE}/d", f"{TABLE}/d")
    assert kept.files() == {k: v for k, v in before.items() if not k.startswith("aside")}


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"f": 1}', b'{"f": ["a", "b", "c"]}'])
def test_another_file_of_that_name_is_refused(content: bytes, kept: Kept) -> None:
    kept.put("aside/d.versions.json", content)
    for act in (lambda: move_back(kept, "d"), lambda: moved(kept.warehouse(), "d")):
        with pytest.raises(FormatError):
            act()


def test_a_list_has_every_name(kept: Kept) -> None:
    names = ["a#b", "a b", "ü", "%2F", "p=*", "deep/er/f", "a;b\\", '"']
    for name in names:
        kept.put(f"d/{name}")
    assert move(kept, "d")
    assert kept.files().keys() == {"aside/d.versions.json"}
    assert move_back(kept, "d")
    assert sorted(kept.files()) == sorted(f"d/{name}" for name in names)


def test_the_list_of_a_process_that_died_is_added_to(kept: Kept) -> None:
    kept.build({"d": 5})
    listed = json.dumps({"gone": ["v", "e", 1]}).encode()
    kept.put("aside/d.versions.json", listed)
    assert move(kept, "d")
    body = kept.client.get_object(Bucket=BUCKET, Key="wh/t/aside/d.versions.json")["Body"]
    assert {"gone", "bucket_00000"} < set(json.loads(body.read()))
    with pytest.raises(TransientError, match="version v is gone"):
        move_back(kept, "d")


def rule(**changes: object) -> dict[str, Any]:
    filled = {"ID": "short", "Status": "Enabled", "Filter": {"Prefix": ""}}
    return filled | {"NoncurrentVersionExpiration": {"NoncurrentDays": 2}} | changes


LONG = {"NoncurrentVersionExpiration": {"NoncurrentDays": 3}}


@pytest.mark.parametrize(
    ("made", "named"),
    [
        pytest.param(rule(), ["short"], id="for all keys"),
        pytest.param(rule(Filter={"Prefix": "wh/t/"}), ["short"], id="for a directory below"),
        pytest.param(rule(Filter={"Prefix": "w"}), ["short"], id="for more than the root"),
        pytest.param(rule(Filter={"Prefix": "other/"}), [], id="for another directory"),
        pytest.param(rule(Status="Disabled"), [], id="switched off"),
        pytest.param(rule(**LONG), [], id="as long as the quarantine"),
        pytest.param(
            rule(**LONG, Expiration={"Days": 1}), ["short"], id="for objects: the list is one"
        ),
        pytest.param(
            rule(Filter={"And": {"Prefix": "wh/", "Tags": [{"Key": "a", "Value": "b"}]}}),
            ["short"],
            id="for some objects",
        ),
        pytest.param(
            rule(**LONG, Expiration={"ExpiredObjectDeleteMarker": True}),
            [],
            id="for markers that are left alone",
        ),
    ],
)
def test_a_rule_of_the_bucket_that_is_shorter_than_a_quarantine_is_named(
    made: dict[str, Any], named: list[str], kept: Kept
) -> None:
    assert shortened(kept) == []
    with lifecycle(kept, made):
        assert shortened(kept) == named


@pytest.mark.parametrize(("storage_class", "named"), [("GLACIER", ["short"]), ("STANDARD_IA", [])])
def test_a_rule_that_moves_versions_into_an_archive_is_named(
    storage_class: str, named: list[str]
) -> None:
    """Nothing can be read from an archive. On moto: MinIO refuses rules with AWS's classes."""
    transition = {"NoncurrentDays": 1, "StorageClass": storage_class}
    with (
        kept_bucket("moto") as kept,
        lifecycle(kept, rule(**LONG, NoncurrentVersionTransitions=[transition])),
    ):
        assert shortened(kept) == named


@contextmanager
def lifecycle(kept: Kept, rule: dict[str, Any]) -> Generator[None]:
    kept.client.put_bucket_lifecycle_configuration(
        Bucket=BUCKET, LifecycleConfiguration={"Rules": [rule]}
    )
    try:
        yield
    finally:
        kept.client.delete_bucket_lifecycle(Bucket=BUCKET)


def shortened(kept: Kept) -> list[str]:
    store = VersionedS3(BUCKET, root=TABLE, **kept.server.options(BUCKET)[f"s3://{BUCKET}"])
    return list(store.shortened(f"s3://{BUCKET}/wh", DAYS_3))


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_requests_are_under_way_than_allowed(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where threads have a store each, as on Spark: copies that were pickled."""
    names, files = [f"d{number}" for number in range(8)], [f"{n:04d}" for n in range(50)]
    monkeypatch.setattr(s3_files, "_BULK", 10)
    with kept_bucket("moto") as kept:
        kept.server.max_concurrency = most
        kept.put_many([f"{name}/f" for name in names] + [f"many/{file}" for file in files])
        kept.put("aside/x")
        sent, requests = pickle.dumps(kept.warehouse()), Requests()
        kept.server.before, kept.server.loses_answer = requests.begin, requests.end

        def of_a_thread(act: Callable[[Warehouse, str], object]) -> None:
            ThreadMap(6).map(lambda name: act(pickle.loads(sent), name), names)  # noqa: S301 - own

        def quarantine(warehouse: Warehouse, name: str) -> None:
            with warehouse.moving(TABLE, ASIDE) as hide:
                assert hide(name, name, always)
            warehouse.moved(ASIDE, [name], TABLE, ThreadMap())
            with warehouse.moving_back(ASIDE, TABLE) as show:
                assert show(name, name, always)

        warehouse = kept.warehouse()
        assert None not in warehouse.walk_each(TABLE, names, ThreadMap(6))
        of_a_thread(quarantine)
        of_a_thread(lambda warehouse, name: warehouse.read(f"{TABLE}/{name}/f"))
        of_a_thread(lambda warehouse, name: warehouse.remove_tree(f"{TABLE}/{name}"))
        removed = warehouse.remove_with_checksums({f"{TABLE}/many": files}, ThreadMap(6))
        assert (removed, kept.paths()) == (50, ["aside/x"])
    assert (requests.peak, requests.count > 100) == (most, True)


def test_threads_that_begin_together_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    both, place = Barrier(2), "s3://begun-together"

    def made(count: int) -> Semaphore:
        both.wait(10)
        return Semaphore(count)

    monkeypatch.setattr(parallel, "Semaphore", made)
    first, second = ThreadMap(2).map(lambda _: parallel.slots_of(place, 1), range(2))
    assert first is second
