"""List and remove a directory of S3: Tidegate, obstore used bare, boto3, and s3fs if installed.

    .venv/bin/python benchmarks/stores.py [--files 20000] [--server versitygw] [--json]

All of them in one run, on a server that is built by `go install` once. CPU seconds are those of
this process, so of the client. Tidegate lists a directory before its removal and after it, and so
do the peers: a removal is not done until nothing is there.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import obstore
from report import Line, line, show

from support.s3 import BUCKET, S3Server, s3_server
from tidegate.storage.s3 import S3Store

FOLDER = "wh/t/d"
PAGE = 1000
MOST_OF_BARE = 1.3


class Cost(NamedTuple):
    """Seconds on the wall's clock, and of CPU."""

    wall: float
    cpu: float


class Client(NamedTuple):
    """How a client lists the files of the folder, and removes them."""

    names: Callable[[], list[str]]
    remove: Callable[[], object]


def clients(server: S3Server) -> Iterator[tuple[str, Client]]:
    """Every client, with its name."""
    location = f"s3://{BUCKET}/{FOLDER}"
    warehouse = server.warehouse()
    yield (
        "tidegate",
        Client(
            lambda: [file.path for file in warehouse.walk(location)],
            lambda: warehouse.remove_tree(location),
        ),
    )
    objects, boto = S3Store(BUCKET, **server.options()[f"s3://{BUCKET}"]).clients

    def bare() -> list[str]:
        pages = obstore.list(objects, FOLDER, chunk_size=PAGE)
        return [entry["path"] for page in pages for entry in page]

    def remove_bare() -> None:
        obstore.delete(objects, bare())
        bare()

    yield "obstore", Client(bare, remove_bare)

    def by_boto() -> list[str]:
        pages = boto.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=FOLDER)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def remove_by_boto() -> None:
        names = by_boto()
        for start in range(0, len(names), PAGE):
            keys = [{"Key": name} for name in names[start : start + PAGE]]
            boto.delete_objects(Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})
        by_boto()

    yield "boto3", Client(by_boto, remove_by_boto)
    if importlib.util.find_spec("s3fs") is not None:
        s3fs = importlib.import_module("s3fs")  # a peer, not in the lock
        fs = s3fs.S3FileSystem(endpoint_url=server.endpoint, use_listings_cache=False)

        def find() -> list[str]:
            return list(fs.find(f"{BUCKET}/{FOLDER}"))

        yield "s3fs", Client(find, lambda: (fs.rm(find()), find()))


def cost_of(act: Callable[[], object]) -> Cost:
    """Measure one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def measure(server: S3Server, files: int) -> dict[str, tuple[Cost, Cost]]:
    """What a listing and a removal cost with every client."""
    keys = [f"{FOLDER}/part-{number:07d}.parquet" for number in range(files)]
    found = {}
    for name, client in clients(server):
        server.put_many(keys)
        listed = client.names()  # connects
        if len(listed) != files:
            raise SystemExit(f"{name} lists {len(listed)} of {files} files")
        listing = min(cost_of(client.names) for _ in range(3))
        found[name] = listing, cost_of(client.remove)
        if left := server.all_keys():
            raise SystemExit(f"{name} left {len(left)} files")
    return found


def lines(found: dict[str, tuple[Cost, Cost]], files: int) -> Iterator[Line]:
    """Every goal: ours by each peer's."""
    for number, act in enumerate(("list", "remove")):
        ours = found["tidegate"][number]
        for peer, costs in found.items():
            theirs, what = costs[number], f"{act} {files} files on S3, against {peer}"
            if peer == "tidegate":
                continue
            if peer == "obstore":
                yield line(f"{what}, s", ours.wall, MOST_OF_BARE, peer=theirs.wall)
            else:
                wanted = (1 / 4, 1 / 2.5)[number] if (act, peer) != ("remove", "boto3") else None
                yield line(f"{what}, s", ours.wall, wanted, peer=theirs.wall)
                cpu_wanted = 0.1 if act == "list" else None
                yield line(f"{what}, s of CPU", ours.cpu, cpu_wanted, peer=theirs.cpu)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--server", choices=["minio", "versitygw", "moto"], default="versitygw")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with s3_server(chosen.server) as server:
        show(lines(measure(server, chosen.files), chosen.files), as_json=chosen.json)


if __name__ == "__main__":
    main()
