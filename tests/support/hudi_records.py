"""Real Hudi, live or from the record of what it did: the fixture `hudi`.

A record has every question that a test asked real Hudi, in order: the table before it, how Hudi
changed the table, and its answer. A replayed test needs no JVM. Tidegate's own part runs for real
on the replayed table, and must arrive at the very table that real Hudi was asked about.

The contents of data files are not recorded: nothing of Tidegate reads them. A replayed one has its
size alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from tidegate.compute.parallel_map import SparkMap, ThreadMap
from tidegate.hudi.rollback_block import MAX_SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.storage import ParallelMap

T = TypeVar("T")
RECORDS: Final = Path(__file__).parent.parent / "records"
LIVE, RECORD, REPLAY = "live", "record", "replay"
_PATH_LENGTH: Final = 100
_BASE: Final = b"/" + b"B" * (_PATH_LENGTH - 1)
"""Stands for the folder of all tables. Avro has the length of a path before it, so every such
folder has a path of the same length."""
_PRIVATE: Final = ".hoodie/.tidegate/"
"""Hudi reads nothing in it."""
_AVRO: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_UNLIKE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{17}|(?<=_)\d+-\d+-\d+"
)
"""What differs whenever real Hudi is asked: file ids, instants, write tokens."""


def _has_data(name: str, size: int) -> bool:
    return name.endswith((".parquet", ".hfile", ".crc")) or (".log." in name and size > MAX_SIZE)


def _digest(content: bytes) -> str:
    if content.startswith(_AVRO):  # the marker between blocks is random, or made of the path
        content = content.replace(content[-_SYNC_BYTES:], b"")
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass
class Asked:
    """One question to real Hudi, and what came of it.

    A table is a mapping of its paths: to a digest, to `=` and a size for data, to `/` for a folder.
    """

    question: str
    before: Mapping[str, str]
    changed: Mapping[str, tuple[str, int]]
    """Each with its modification time in ns: in layout 1 it is the completion time."""
    removed: list[str]
    answer: Any

    def essence(self) -> dict[str, object]:
        """What must be the same whenever real Hudi is asked."""

        def plain(value: object) -> str:
            return _UNLIKE.sub("*", json.dumps(value))

        def names(paths: Iterator[str]) -> dict[str, int]:
            return dict(sorted(Counter(_UNLIKE.sub("*", path) for path in paths).items()))

        return {
            "question": plain(self.question),
            "answer": sorted(map(plain, self.answer or ())),
            "before": names(iter(self.before)),
            "added": names(path for path in self.changed if path not in self.before),
            "removed": names(iter(self.removed)),
        }


@dataclass
class Record:
    """What one test, or one scene that several tests share, asked real Hudi."""

    path: Path
    asked: list[Asked] = field(default_factory=list[Asked])
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """By their digests, with `_BASE` for the folder of all tables."""
    replayed: int = 0

    @classmethod
    def load(cls, path: Path) -> Record:
        if not path.exists():
            pytest.fail(f"{path.name} is missing: `make records ARGS=...` makes it", pytrace=False)
        stored = json.loads(lzma.decompress(path.read_bytes()))
        contents = {name: base64.b85decode(text) for name, text in stored["contents"].items()}
        return cls(path, [Asked(**fields) for fields in stored["asked"]], contents)

    def save(self) -> None:
        contents = {name: base64.b85encode(data).decode() for name, data in self.contents.items()}
        stored = {"asked": [asdict(a) for a in self.asked], "contents": contents}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(stored, sort_keys=True)
        self.path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))

    def check(self, recorded: Record) -> None:
        """Fail unless real Hudi did the same as when it was recorded."""
        hint = f"real Hudi differs from {recorded.path.name}: `make records` records it anew"
        assert len(self.asked) == len(recorded.asked), hint
        for now, then in zip(self.asked, recorded.asked, strict=True):
            assert now.essence() == then.essence(), hint


@dataclass
class RealHudi:
    """Real Hudi, for one test at a time. Tables are below `root`."""

    base: Path
    session: Callable[[], SparkSession]
    records: Path = RECORDS
    mode: str = LIVE
    module: str = ""
    root: Path = Path()
    record: Record | None = None
    """None: what it is asked is neither recorded nor replayed."""
    _shared: dict[tuple[str, str], tuple[bool, Any]] = field(
        default_factory=dict[tuple[str, str], tuple[bool, Any]]
    )

    def ask(self, table: Path, question: str, live: Callable[[SparkSession], object]) -> Any:  # noqa: ANN401
        """Have real Hudi change a table or answer a question: JSON."""
        if self.record is None:
            return live(self.session())
        question = f"{table.relative_to(self.base)}: {question}"
        before = self._tree(table)
        if self.mode == REPLAY:
            return self._replay(self.record, table, question, before)
        times = _times(table)
        answer = json.loads(json.dumps(live(self.session()), default=str))
        after, since = self._tree(table), _times(table)
        changed = {
            path: (what, since.get(path, 0))
            for path, what in after.items()
            if before.get(path) != what or times.get(path) != since.get(path)
        }
        for path, (what, _) in changed.items():
            if what not in self.record.contents and not what.startswith(("=", "/")):
                self.record.contents[what] = self._content(table / path)
        removed = sorted(before.keys() - after.keys())
        self.record.asked.append(Asked(question, before, changed, removed, answer))
        return answer

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """A scene that several tests copy, made once in a session.

        It is made again when the mode changes, because the scenes of both modes have one folder.
        """
        key, is_replayed = (self.module, name), self.mode == REPLAY
        if key not in self._shared or self._shared[key][0] != is_replayed:
            with self.recorded(name):
                self._shared[key] = is_replayed, make()
        found: T = self._shared[key][1]
        return found

    @contextmanager
    def recorded(self, name: str, passed: Callable[[], bool] = lambda: True) -> Generator[None]:
        """Use the record of this name, and a `root` of its own, within.

        Of a test that did not pass, what it asked is neither compared nor recorded.
        """
        outer = self.root, self.record
        key = hashlib.sha256(f"{self.module} {name}".encode()).hexdigest()[:12]
        self.root = self.base / key
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        file = re.sub(r"[^0-9A-Za-z]+", "-", name).strip("-")[:100]
        path = self.records / self.module / f"{file}-{key[:6]}.json.xz"
        self.record = Record.load(path) if self.mode == REPLAY else Record(path)
        try:
            yield
            if not passed():
                pass
            elif self.mode == RECORD:
                self.record.save()
            elif self.mode == LIVE:
                self.record.check(Record.load(path))
            else:
                asked, replayed = len(self.record.asked), self.record.replayed
                assert replayed == asked, f"the test asks {replayed} of {asked} recorded questions"
        finally:
            self.root, self.record = outer

    def parallel_map(self) -> ParallelMap:
        """On Spark, where there is one."""
        return ThreadMap() if self.mode == REPLAY else SparkMap(self.session)

    def identity(self, table: Path) -> str:
        """A digest of a table: the same where the record was made and where it is replayed."""
        return hashlib.sha256(json.dumps(self._tree(table), sort_keys=True).encode()).hexdigest()

    def _tree(self, table: Path) -> dict[str, str]:
        found = dict[str, str]()
        for name, path in _below(table):
            if f"{name}/".startswith(_PRIVATE):
                continue
            if path.is_dir():
                found[name] = "/"
            elif _has_data(name, size := path.stat().st_size):
                found[name] = f"={size}"
            else:
                found[name] = _digest(self._content(path.path))
        return found

    def _content(self, path: str | Path) -> bytes:
        return Path(path).read_bytes().replace(str(self.base).encode(), _BASE)

    def _replay(
        self, record: Record, table: Path, question: str, before: Mapping[str, str]
    ) -> object:
        assert record.replayed < len(record.asked), f"{question}: nothing more is recorded"
        asked = record.asked[record.replayed]
        hint = "`make test-full ARGS=...` asks real Hudi, `make records ARGS=...` records it anew"
        assert question == asked.question, f"real Hudi was asked another question: {hint}"
        differing = {
            path: f"recorded {asked.before.get(path)}, now {before.get(path)}"
            for path in sorted(asked.before.keys() | before.keys())
            if asked.before.get(path) != before.get(path)
        }
        assert not differing, f"this is not the table that real Hudi was asked about: {hint}"
        record.replayed += 1
        for path in reversed(asked.removed):
            gone = table / path
            gone.rmdir() if gone.is_dir() else gone.unlink()
        for path, (what, _) in sorted(asked.changed.items()):
            self._write(table / path, what, record.contents)
        for path, (what, modified) in asked.changed.items():
            if what != "/":
                os.utime(table / path, ns=(modified, modified))
        return asked.answer

    def _write(self, path: Path, what: str, contents: Mapping[str, bytes]) -> None:
        if what == "/":
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if what.startswith("="):
            path.touch()
            os.truncate(path, int(what[1:]))
        else:
            path.write_bytes(contents[what].replace(_BASE, str(self.base).encode()))


@contextmanager
def base_folder() -> Generator[Path]:
    """A folder for all tables."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        base = Path(os.path.realpath(folder))
        base /= "-" * (_PATH_LENGTH - len(str(base)) - 1)
        base.mkdir()
        yield base


def _below(folder: Path | str, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a folder, by its path in it; nothing where the folder does not exist."""
    if not prefix and not os.path.exists(folder):  # noqa: PTH110 - called for thousands of files
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            yield prefix + entry.name, entry
            if entry.is_dir():
                yield from _below(entry.path, f"{prefix}{entry.name}/")


def _times(table: Path) -> dict[str, int]:
    return {name: e.stat().st_mtime_ns for name, e in _below(table) if not e.is_dir()}


@contextmanager
def recorded_time(hudi: RealHudi, table: Path) -> Generator[Callable[[], datetime]]:
    """A clock for Tidegate's part, and the modification times that go with it.

    It is right after the last step on the timeline: what Tidegate writes is then the same bytes
    where the record was made and where it is replayed.
    """
    if hudi.record is None:
        yield lambda: datetime.now(UTC)
        return
    before = _times(table)
    layout_two = (table / ".hoodie/timeline").is_dir()
    prefix = ".hoodie/timeline/" if layout_two else ".hoodie/"
    timeline = [p for p in before if p.startswith(prefix) and "/" not in p[len(prefix) :]]
    instants = [found for path in timeline for found in re.findall(r"\d{17}", path)]
    moment = datetime.strptime(max(instants), "%Y%m%d%H%M%S%f").astimezone()
    if not layout_two:
        last = datetime.fromtimestamp(max(before[path] for path in timeline) / 1e9, UTC)
        moment = max(moment, last)
    moment += timedelta(milliseconds=1)
    try:
        yield lambda: moment
    finally:
        for path, modified in _times(table).items():
            if before.get(path) != modified:
                at = int(moment.timestamp() * 1000) * 1_000_000
                os.utime(table / path, ns=(at, at))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hudi",
        choices=(REPLAY, LIVE, RECORD),
        default=REPLAY,
        help="replay the records of real Hudi (default), ask it live, or record it anew",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that will ask real Hudi live; `full`: `make test` replays them.

    Nothing else runs when records are made.
    """
    mode = str(config.getoption("--hudi"))
    recorded = [item for item in items if "hudi" in getattr(item, "fixturenames", ())]
    for item in recorded:
        if _mode_of(item, mode) != REPLAY:
            for mark in ("spark", "judge", "slow", *(() if _is_live(item) else ("full",))):
                item.add_marker(mark)
    if mode == RECORD:
        config.hook.pytest_deselected(items=[item for item in items if item not in recorded])
        items[:] = recorded


def _is_live(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("live")
    return mark is not None and (not mark.args or item.name.partition("[")[2][:-1] in mark.args)


def _mode_of(item: pytest.Item, mode: str) -> str:
    return LIVE if mode == REPLAY and _is_live(item) else mode


@pytest.fixture(scope="session")
def _real_hudi(request: pytest.FixtureRequest) -> Iterator[RealHudi]:
    with base_folder() as base:
        yield RealHudi(base, lambda: request.getfixturevalue("spark"))


@pytest.fixture
def hudi(
    request: pytest.FixtureRequest, _real_hudi: RealHudi, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealHudi]:
    """Real Hudi: from the record, or live where the option or the marker `live` says so."""
    real, failed = _real_hudi, request.session.testsfailed
    real.mode = _mode_of(request.node, str(request.config.getoption("--hudi")))
    real.module = request.path.stem
    if real.mode == RECORD:
        assert not time.timezone, "records are made with TZ=UTC"
    with monkeypatch.context() as patched:
        if real.mode == REPLAY:
            patched.setenv("TZ", "UTC")
            time.tzset()
        with real.recorded(request.node.name, lambda: request.session.testsfailed == failed):
            yield real
            shutil.rmtree(real.root)
    time.tzset()


@pytest.fixture
def lake(hudi: RealHudi) -> Path:
    """Where the tables of a test are."""
    return hudi.root


@pytest.fixture
def live_hudi(_real_hudi: RealHudi) -> RealHudi:
    """Real Hudi, always live, for what can't be recorded: processes that race each other."""
    _real_hudi.mode, _real_hudi.record = LIVE, None
    return _real_hudi
