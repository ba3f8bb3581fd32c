"""Nothing outside the warehouse roots may be touched, by name or by link."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import ConfigError, ConfinementError, ReachedByLink
from tidegate.tables.warehouse import WarehouseRoots


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake/orders").mkdir(parents=True)
    (tmp_path / "lake2").mkdir()
    return tmp_path / "lake"


def test_a_location_below_a_root_is_returned_normalised(lake: Path) -> None:
    roots = WarehouseRoots.of(f"file:{lake}/", "s3a://lake/tables")

    assert roots.check(f"file://{lake}//orders/") == f"{lake}/orders"
    assert roots.check("s3a://lake/tables/orders") == "s3://lake/tables/orders"


def test_a_location_below_any_of_the_roots_is_accepted(lake: Path) -> None:
    roots = WarehouseRoots.of(str(lake), str(lake.parent / "lake2"))

    assert roots.check(f"{lake.parent}/lake2/t") == f"{lake.parent}/lake2/t"


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("lake2", id="a root that begins alike"),
        pytest.param("lake2/orders", id="below a root that begins alike"),
        pytest.param("lake", id="the root itself"),
        pytest.param("lake/", id="the root itself with a slash"),
        pytest.param("lake/.", id="the root itself by a step on the spot"),
        pytest.param("", id="above the root"),
        pytest.param("lake/../lake2/t", id="a step upwards and out"),
        pytest.param("lake/orders/../orders", id="a step upwards that stays in"),
        pytest.param("LAKE/orders", id="another case"),
        pytest.param("lake\n/orders", id="a newline in the root's name"),
        pytest.param("lake/orders\x00", id="a NUL"),
    ],
)
def test_a_location_outside_the_roots_by_name_is_refused(lake: Path, place: str) -> None:
    with pytest.raises(ConfinementError):
        WarehouseRoots.of(str(lake)).check(f"{lake.parent}/{place}")


@pytest.mark.parametrize(
    "location",
    [
        "orders",
        "",
        "s3://lake/tables",
        "s3://lake/tables2/t",
        "s3://lake2/tables/t",
        "s3:///lake/tables/t",
        "s3://lake/tables/../other/t",
        "s3://@lake/tables/t",
        "gs://lake/tables/t",
        "http://lake/tables/t",
        "s3://[lake/tables/t",
    ],
)
def test_another_store_or_bucket_is_outside(location: str) -> None:
    with pytest.raises(ConfinementError):
        WarehouseRoots.of("s3://lake/tables").check(location)


def test_a_table_that_is_a_link_out_of_the_root_is_refused(lake: Path) -> None:
    (lake / "out").symlink_to(lake.parent / "lake2")

    with pytest.raises(ConfinementError, match="through a symbolic link"):
        WarehouseRoots.of(str(lake)).check(f"{lake}/out")


def test_a_link_of_a_parent_is_followed_before_a_place_is_trusted(lake: Path) -> None:
    (lake / "out").symlink_to(lake.parent / "lake2")

    with pytest.raises(ConfinementError, match="through a symbolic link"):
        WarehouseRoots.of(str(lake)).check(f"{lake}/out/not-yet/there")


def test_a_broken_link_out_of_the_root_is_refused(lake: Path) -> None:
    (lake / "out").symlink_to(lake.parent / "nothing-there-yet")

    with pytest.raises(ConfinementError, match="through a symbolic link"):
        WarehouseRoots.of(str(lake)).check(f"{lake}/out")


def test_a_chain_of_links_is_followed_to_its_end(lake: Path) -> None:
    (lake / "second").symlink_to(lake.parent)
    (lake / "first").symlink_to("second")

    with pytest.raises(ConfinementError, match="through a symbolic link"):
        WarehouseRoots.of(str(lake)).check(f"{lake}/first/lake2/t")


def test_a_link_back_to_the_root_itself_is_refused(lake: Path) -> None:
    (lake / "self").symlink_to(lake)

    with pytest.raises(ConfinementError, match="through a symbolic link"):
        WarehouseRoots.of(str(lake)).check(f"{lake}/self")


def test_a_root_may_be_a_link_itself(lake: Path) -> None:
    (lake.parent / "alias").symlink_to(lake)
    roots = WarehouseRoots.of(str(lake.parent / "alias"))

    assert roots.check(f"{lake.parent}/alias/orders") == f"{lake.parent}/alias/orders"


def test_a_root_may_be_reached_through_a_link(lake: Path) -> None:
    (lake.parent / "alias").symlink_to(lake.parent)
    roots = WarehouseRoots.of(str(lake.parent / "alias/lake"))

    assert roots.check(f"{lake.parent}/alias/lake/orders") == f"{lake.parent}/alias/lake/orders"


def test_a_root_may_be_a_link_below_another_root(lake: Path) -> None:
    (lake / "more").symlink_to(lake.parent / "lake2")
    roots = WarehouseRoots.of(str(lake), str(lake / "more"))

    assert roots.check(f"{lake}/more/t") == f"{lake}/more/t"


@pytest.mark.parametrize("place", ["alias", "alias/p=1", "nested/orders/p=1", "orders/p=2"])
def test_a_link_from_one_table_to_another_is_refused(lake: Path, place: str) -> None:
    (lake / "orders/p=1").mkdir()
    (lake / "orders/p=2").symlink_to("p=1")
    (lake / "alias").symlink_to(lake / "orders")
    (lake / "nested").symlink_to(lake)

    with pytest.raises(ReachedByLink, match=f"its real path is {lake}/orders"):
        WarehouseRoots.of(str(lake)).check(f"{lake}/{place}")


@pytest.mark.parametrize(
    "root", ["/", "//", "file:///", "file:/", "/./", "s3://", "s3:///", "memory://"]
)
def test_a_whole_file_system_is_not_a_root(root: str) -> None:
    with pytest.raises(ConfigError):
        WarehouseRoots.of(root)


def test_a_link_to_the_whole_file_system_is_not_a_root(tmp_path: Path) -> None:
    (tmp_path / "everything").symlink_to("/")

    with pytest.raises(ConfigError):
        WarehouseRoots.of(str(tmp_path / "everything"))


@pytest.mark.parametrize("root", ["lake", "", "../lake", "/lake/../other"])
def test_a_root_that_is_not_absolute_is_refused(root: str) -> None:
    with pytest.raises(ConfigError):
        WarehouseRoots.of("/lake", root)


def test_no_root_at_all_is_refused() -> None:
    with pytest.raises(ConfigError):
        WarehouseRoots.of()
