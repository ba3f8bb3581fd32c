"""Normalised locations compare equal exactly where they mean the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import FormatError
from tidegate.storage import is_below, join, local_path, normalise

_CONTAINER = "lake@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("/lake/orders", id="a path"),
        pytest.param("file:/lake/orders", id="a URI with one slash, as Hadoop writes it"),
        pytest.param("file:///lake/orders", id="a URI with three slashes"),
        pytest.param("FILE:///lake/orders", id="a scheme in capitals"),
        pytest.param("local:///lake/orders", id="fsspec's other name for the local disk"),
        pytest.param("/lake/orders/", id="a slash at the end"),
        pytest.param("//lake//orders", id="doubled slashes"),
        pytest.param("/lake/./orders", id="a step on the spot"),
    ],
)
def test_every_spelling_of_a_local_path_is_normalised_alike(location: str) -> None:
    assert normalise(location) == "/lake/orders"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        pytest.param("s3a://lake/orders", "s3://lake/orders", id="s3a is s3"),
        pytest.param("s3n://lake/orders", "s3://lake/orders", id="s3n is s3"),
        pytest.param("S3://lake/orders", "s3://lake/orders", id="a scheme in capitals"),
        pytest.param("gcs://lake/orders", "gs://lake/orders", id="gcs is gs"),
        *(
            pytest.param(f"{spelling}/orders", f"abfss://{_CONTAINER}/orders", id=spelling)
            for spelling in (
                f"abfs://{_CONTAINER}",
                f"wasb://{_CONTAINER.replace('.dfs.', '.blob.')}",
                f"wasbs://{_CONTAINER}",
            )
        ),
        pytest.param("s3://lake//orders/", "s3://lake/orders", id="doubled slashes"),
        pytest.param("s3://lake", "s3://lake", id="a bucket"),
        pytest.param("s3://lake/", "s3://lake", id="a bucket with a slash"),
        pytest.param("hdfs://nn:9000/lake", "hdfs://nn:9000/lake", id="an authority with a port"),
        pytest.param("hdfs://nn:8020/lake", "hdfs://nn/lake", id="the default port of HDFS"),
    ],
)
def test_a_remote_place_keeps_its_store_and_its_path(location: str, expected: str) -> None:
    assert normalise(location) == expected


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "s3://bucket"])
@pytest.mark.parametrize("name", ["day=a%3Ab", "%2e%2e", "a#b", "a?b", "a\nb", "a b ", "~", "[x]"])
def test_no_character_of_a_name_is_decoded_or_dropped(prefix: str, name: str) -> None:
    expected = f"s3://bucket/lake/{name}/t" if prefix == "s3://bucket" else f"/lake/{name}/t"

    assert normalise(f"{prefix}/lake/{name}/t") == expected


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("", id="empty"),
        pytest.param("lake/orders", id="relative"),
        pytest.param("./lake", id="relative to here"),
        pytest.param("~/lake", id="a home"),
        pytest.param(" /lake", id="a space before it"),
        pytest.param("file:lake", id="a relative URI"),
        pytest.param("file:", id="a scheme alone"),
        pytest.param("s3:/lake/orders", id="a store without its bucket"),
        pytest.param("s3:lake", id="a store and a relative path"),
        pytest.param("simplecache::s3://lake/orders", id="a chain of file systems"),
        pytest.param("file://nas/lake", id="a file on a named host"),
        pytest.param("file://lake", id="a host for a directory"),
        pytest.param("/lake/../etc", id="a step upwards"),
        pytest.param("/lake/orders/..", id="a step upwards at the end"),
        pytest.param("s3://lake/../etc", id="a step upwards in a bucket"),
        pytest.param("file:/lake/../etc", id="a step upwards in a URI"),
        pytest.param("/lake/\x00orders", id="a NUL"),
        pytest.param("s3://la\x00ke/orders", id="a NUL in a bucket"),
    ],
)
def test_a_location_that_could_mean_two_places_is_refused(location: str) -> None:
    with pytest.raises(FormatError):
        normalise(location)


def test_a_bracket_in_a_bucket_is_a_name_like_any_other() -> None:
    assert normalise("s3://[x/orders") == "s3://[x/orders"


@pytest.mark.parametrize(
    ("location", "root", "below"),
    [
        pytest.param("/lake/orders", "/lake", True, id="a child"),
        pytest.param("/lake/a/b", "/lake", True, id="a grandchild"),
        pytest.param("/lake", "/lake", False, id="the root itself"),
        pytest.param("/lake2/orders", "/lake", False, id="a name that begins alike"),
        pytest.param("/", "/lake", False, id="above it"),
        pytest.param("/", "/", False, id="the top itself"),
        pytest.param("s3://lake/orders", "s3://lake", True, id="in a bucket"),
        pytest.param("s3://lake2/orders", "s3://lake", False, id="in a bucket that begins alike"),
        pytest.param("s3://lake/orders", "/lake", False, id="another store"),
    ],
)
def test_below_means_strictly_inside_by_whole_names(location: str, root: str, below: bool) -> None:  # noqa: FBT001
    assert is_below(location, root) is below


def test_joining_leaves_no_doubled_slash_and_no_empty_name() -> None:
    assert join("/lake/", "", "/orders/", "day=1/") == "/lake/orders/day=1"


def test_a_local_path_follows_every_link_and_a_remote_one_has_none(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert local_path(f"{tmp_path}/link/t") == f"{tmp_path.resolve()}/real/t"
    assert local_path("s3://lake/t") is None
