"""Listing and cleaning a table on a real HDFS, against hdfs-native used bare and WebHDFS.

    .venv/bin/python benchmarks/hdfs.py [--directories 10000] [--rounds 3] [--json]

The bare client lists one directory after another, and removes each with all that is in it in one
call, without a check. WebHDFS is asked over one connection that stays open; there each directory
is listed and its files are removed one by one, as the cleaner does. The cleaner also checks the
product before each directory, and lists all before and after. All take turns, and the fastest
round of each counts. The cluster is on this machine, so a call costs less than in a real one, for
all of them. CPU seconds are those of this process, so of the client.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import hdfs_native
from report import Line, line, show
from stores import Cost, cost_of

from cleaning import inserts, product, released
from support.hdfs import Cluster, running
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import DirectoriesCleaned

FILES = ("_orc_acid_version", "bucket_00000")
MOST_OF_BARE = {"list": 1.5, "clean": 4.0}
MOST_OF_WEB = 1 / 4


class Client(NamedTuple):
    """How a client lists all files of a table, and removes its obsolete directories."""

    list: Callable[[str], int]
    clean: Callable[[str], object]


class Web:
    """WebHDFS over one connection."""

    def __init__(self, address: str) -> None:
        """Take `host:port`."""
        self._connection = HTTPConnection(address)

    def ask(self, method: str, path: str, query: str) -> Any:  # noqa: ANN401 - JSON
        """The answer to a request."""
        self._connection.request(method, f"/webhdfs/v1{path}?user.name=root&op={query}")
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        if answer.status != 200:  # noqa: PLR2004
            raise SystemExit(f"WebHDFS: {content}")
        return content

    def children(self, path: str) -> list[str]:
        """The names in a directory."""
        found = self.ask("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return [entry["pathSuffix"] for entry in found]

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""
        self.ask("DELETE", path, "DELETE&recursive=false")


def clients(cluster: Cluster, bare: hdfs_native.Client, deltas: int) -> Mapping[str, Client]:
    """All of them, by name."""
    warehouse, web = cluster.warehouse(), Web(cluster.web)

    def clean(path: str) -> None:
        cleaner = Cleaner(warehouse, ThreadMap(), lambda: datetime.now(UTC))
        *_, cleaned = cleaner.execute(released(f"{cluster.address}{path}", deltas))
        if not isinstance(cleaned, DirectoriesCleaned) or len(cleaned.directories) != deltas:
            raise SystemExit(f"not cleaned: {cleaned}")

    def list_bare(path: str) -> int:
        directories = list(bare.list_status(path))
        return sum(len(list(bare.list_status(entry.path))) for entry in directories)

    def remove_bare(path: str) -> None:
        for name in inserts(deltas):
            bare.delete(f"{path}/{name}", recursive=True)

    def remove_by_web(path: str) -> None:
        for name in inserts(deltas):
            for file in web.children(f"{path}/{name}"):
                web.remove(f"{path}/{name}/{file}")
            web.remove(f"{path}/{name}")

    def list_by_web(path: str) -> int:
        return sum(len(web.children(f"{path}/{name}")) for name in web.children(path))

    return {
        "tidegate": Client(
            lambda path: len(list(warehouse.walk(f"{cluster.address}{path}"))), clean
        ),
        "hdfs-native used bare": Client(list_bare, remove_bare),
        "WebHDFS": Client(list_by_web, remove_by_web),
    }


def make_table(client: hdfs_native.Client, path: str, deltas: int) -> None:
    """Create two files in each directory; empty ones, which take a tenth of the time."""

    def make(name: str) -> None:
        for file in FILES:
            with client.create(f"{path}/{name}/{file}") as created:
                if name == product(deltas):
                    created.write(b"x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, [product(deltas), *inserts(deltas)]))


def lines(act: str, deltas: int, turns: list[dict[str, Cost]]) -> Iterator[Line]:
    """What one act costs, by what it costs each peer."""
    best = {
        name: Cost(*map(min, zip(*(turn[name] for turn in turns), strict=True)))
        for name in turns[0]
    }
    ours = best.pop("tidegate")
    for name, theirs in best.items():
        what = f"{act} {deltas:,} directories of two files on HDFS, against {name}"
        wanted = MOST_OF_WEB if name == "WebHDFS" else MOST_OF_BARE[act]
        yield line(f"{what}, s", ours.wall, wanted, peer=theirs.wall)
        yield line(f"{what}, s of CPU", ours.cpu, peer=theirs.cpu)


def measured(deltas: int, rounds: int) -> Iterator[Line]:
    """Every goal, on one cluster."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as clusters:
        bare = hdfs_native.Client(clusters.lake.address)
        peers = clients(clusters.lake, bare, deltas)
        listings, cleanings = list[dict[str, Cost]](), list[dict[str, Cost]]()
        for number in range(rounds):
            paths = {name: f"/wh/{number}/{place}" for place, name in enumerate(peers)}
            for path in paths.values():
                make_table(bare, path, deltas)
            found = {client.list(path) for client in peers.values() for path in paths.values()}
            if found != {len(FILES) * (deltas + 1)}:
                raise SystemExit(f"{found} files were listed")
            listings.append(
                {name: cost_of(lambda: peers[name].list(path)) for name, path in paths.items()}  # noqa: B023 - called at once
            )
            cleanings.append(
                {name: cost_of(lambda: peers[name].clean(path)) for name, path in paths.items()}  # noqa: B023
            )
        yield from lines("list", deltas, listings)
        yield from lines("clean", deltas, cleanings)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directories", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    show(measured(args.directories, args.rounds), as_json=args.json)


if __name__ == "__main__":
    main()
