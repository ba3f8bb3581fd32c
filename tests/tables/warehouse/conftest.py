"""Every file opened here is closed again, after failures too; and the places of the suite."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hdfs_native import Client

from support.descriptors import nothing_left_open
from support.hdfs import Cluster
from support.s3 import BUCKET, S3Server, s3_server
from support.versioned import TABLE, kept_bucket
from tidegate.storage import hdfs as hdfs_storage
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

if TYPE_CHECKING:
    from support.clouds import CloudServer

__all__ = ["configure", "nothing_left_open", "place"]


Configure = Callable[..., None]


@dataclass(frozen=True)
class Place:
    """A table's location in an empty warehouse, and another client of the same place."""

    warehouse: Warehouse
    table: str
    put: Callable[[str], object]
    """Writes a file with the content `1`, by its path below the table."""
    fill: Callable[[Iterable[str]], object]
    """Writes many files, in any way that is fast."""
    files: Callable[[], list[str]]
    """The files below the table, as the other client lists them."""
    name: str


@pytest.fixture(
    params=[
        "path",
        "URI",
        "moto",
        "moto with versions",
        pytest.param("hdfs", marks=pytest.mark.full),
        pytest.param("minio", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
        pytest.param("minio with versions", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
        pytest.param("versitygw", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
        pytest.param("fake-gcs", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
        pytest.param("azurite", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    name = str(request.param)
    if name in {"path", "URI"}:
        yield _local(tmp_path, name)
        return
    if name == "hdfs":
        yield _on_hdfs(request.getfixturevalue("hdfs").lake)
        return
    if name in {"fake-gcs", "azurite"}:
        from support.clouds import cloud_server  # noqa: PLC0415 - only these cases need the clients

        with cloud_server(name) as cloud:
            yield _on_objects(cloud, cloud.place, name)
        return
    program, _, versions = name.partition(" with ")
    if versions:
        with kept_bucket(program) as kept:
            warehouse = kept.warehouse()
            yield Place(warehouse, TABLE, kept.put, kept.put_many, kept.paths, program)
        return
    with s3_server(name) as server:
        if name == "moto":
            server.max_concurrency = 1  # a request inside another one would wait for itself
        yield _on_objects(server, f"s3://{BUCKET}", name)


def _local(lake: Path, name: str) -> Place:
    table = lake / "t"

    def put(path: str) -> None:
        (table / path).parent.mkdir(parents=True, exist_ok=True)
        (table / path).write_bytes(b"1")

    def files() -> list[str]:
        return sorted(str(p.relative_to(table)) for p in table.rglob("*") if p.is_file())

    warehouse = Warehouse(WarehouseRoots.of(str(lake)))

    def fill(paths: Iterable[str]) -> None:
        for path in paths:
            put(path)

    location = f"file://{table}" if name == "URI" else str(table)
    return Place(warehouse, location, put, fill, files, name)


def _on_objects(server: S3Server | CloudServer, bucket: str, name: str) -> Place:
    above = "wh/t/"

    def files() -> list[str]:
        return sorted(k[len(above) :] for k in server.all_keys() if k[-1] != "/" and above in k)

    def put(path: str) -> None:
        server.put_many([f"{above}{path}"])

    def fill(paths: Iterable[str]) -> None:
        server.put_many(f"{above}{path}" for path in paths)

    return Place(server.warehouse(), f"{bucket}/wh/t", put, fill, files, name)


def _on_hdfs(cluster: Cluster) -> Place:
    def put(path: str) -> None:
        cluster.put(f"/wh/t/{path}")

    def files() -> list[str]:
        return cluster.all_files("/wh/t")

    def fill(paths: Iterable[str]) -> None:
        client = Client(cluster.address)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: client.create(f"/wh/t/{path}").close(), paths))

    return Place(cluster.warehouse(), f"{cluster.address}/wh/t", put, fill, files, "hdfs")


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Writes Hadoop's configuration files, where clients find them."""

    def write(file: str = "core-site.xml", **settings: str) -> None:
        folder = tmp_path / f"conf-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        rows = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        )
        (folder / file).write_text(f"<configuration>{rows}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
        hdfs_storage.client_of.cache_clear()

    return write
