"""What a command costs at 1, 10 and 100 times the size: seconds, memory, and the exponent.

    .venv/bin/python benchmarks/growth.py [--rows cleaning savepoint] [--largest 5000]
                                          [--folder DIR] [--json]

Every row is measured beside a floor (the bare system calls) in the same process, one process for
each size, so that its peak memory is that size's own. The exponent is the slope of the CPU seconds
between the two largest sizes in a log-log plot: 1 is linear. It is of CPU time because machines
are shared; ratios are of wall-clock time, of calls in turns. `!` marks a goal that was missed.
With --json a line a goal, as all benchmarks print it (report.py); without, every size.

Rows of growth_bus.py and growth_reports.py need a broker: that of KAFKA_BOOTSTRAP_SERVERS, else an
embedded one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from report import Line, line, show, text

from support.kafka import SERVERS_VARIABLE
from tidegate.embedded import EmbeddedBroker

ROUNDS = 3
MODULES = ("growth_tables", "growth_bus", "growth_reports")
"""Modules beside this one, each with ROWS."""
MOST_MB = 256
MOST_EXPONENT = 1.1
EXPONENT_ERROR = 0.05
"""How far two runs' exponents differ."""


@dataclass(frozen=True)
class Seconds:
    """How long something took: on the wall's clock, and of all threads' CPU time."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Timing:
    """Our time and the floor's, and what else was counted: records, bytes, descriptors."""

    ours: Seconds
    floor: Seconds
    counts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Goal:
    """The most seconds, times the floor, and of what is counted, at the largest size."""

    seconds: float = math.inf
    ratio: float = math.inf
    counts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Row:
    """A measurement: `prepare` and `measure` get a folder of their own and the size."""

    name: str
    unit: str
    sizes: Sequence[int]
    prepare: Callable[[Path, int], None]
    measure: Callable[[Path, int], Timing]
    goal: Goal = field(default_factory=Goal)
    on_broker: bool = False


def timed(action: Callable[[], object]) -> Seconds:
    """Call it once."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def in_turns(ours: Callable[[], object], floor: Callable[[], object]) -> Timing:
    """Call both in turns, some rounds; the fastest of each."""
    rounds = [(timed(floor), timed(ours)) for _ in range(ROUNDS)]
    bare, own = zip(*rounds, strict=True)
    return Timing(min(own, key=_wall), min(bare, key=_wall))


def _wall(seconds: Seconds) -> float:
    return seconds.wall


def rows() -> Iterator[Row]:
    """The rows of all modules."""
    for name in MODULES:
        yield from importlib.import_module(name).ROWS


def child(phase: str, name: str, size: int, folder: Path) -> None:
    """Prepare or measure one row at one size, in a process of its own."""
    row = next(row for row in rows() if row.name == name)
    if phase == "prepare":
        row.prepare(folder, size)
        # a real table was written long ago: files that never reached the disk are removed for less
        os.sync()
        return
    before = _peak_mb()
    timing = asdict(row.measure(folder, size))
    print(json.dumps(timing | {"peak_mb": _peak_mb(), "start_mb": before}))


def _peak_mb() -> float:
    # not ru_maxrss, in which the process that started this one counts too
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measured(row: Row, size: int, folder: Path | None) -> dict[str, Any]:
    """One row at one size."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="growth-") as name:
        place = str(Path(name).resolve())
        for phase in ("prepare", "measure"):
            arguments = [sys.executable, __file__, "--child", phase, row.name, str(size), place]
            printed = subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout
    found = json.loads(printed)
    ours, floor = found["ours"], found["floor"]
    return {
        "size": size,
        "seconds": ours["wall"],
        "cpu_seconds": ours["cpu"],
        "floor_seconds": floor["wall"],
        "floor_cpu_seconds": floor["cpu"],
        "ratio": ours["wall"] / floor["wall"],
        "peak_mb": found["peak_mb"],
        "start_mb": found["start_mb"],
        "counts": found["counts"],
    }


def exponent(sizes: Sequence[dict[str, Any]], seconds: str = "cpu_seconds") -> float | None:
    """The slope between the two largest sizes."""
    if len(sizes) < 2:  # noqa: PLR2004 - a slope needs two points
        return None
    one, other = sizes[-2:]
    return math.log(other[seconds] / one[seconds]) / math.log(other["size"] / one["size"])


def goals(row: Row, found: dict[str, Any]) -> Iterator[Line]:
    """A row's goals, and whether they are reached. The costs of the floor itself do not count.

    Its own goals are for its largest size; the exponent and the memory are wanted at every size.
    """
    last = found["sizes"][-1]
    if found["exponent"] is not None:
        most = max(MOST_EXPONENT, (found["floor_exponent"] or 0) + EXPONENT_ERROR)
        yield line(f"{row.name}: exponent", found["exponent"], round(most, 2))
    what = f"{row.name}, {last['size']:,} {row.unit}:"
    yield line(f"{what} MB", last["peak_mb"], MOST_MB)
    own = row.goal if last["size"] == row.sizes[-1] else Goal()
    ratio = None if own.ratio == math.inf else own.ratio
    yield line(f"{what} seconds by the floor's", last["seconds"], ratio, peer=last["floor_seconds"])
    if own.seconds < math.inf:
        yield line(f"{what} seconds", last["seconds"], own.seconds)
    for name, count in last["counts"].items():
        yield line(f"{what} {name}", count, own.counts.get(name))


def show_row(row: Row, found: dict[str, Any]) -> None:
    """Print a row as text."""
    slope = ""
    if found["exponent"] is not None:
        slope = f"   exponent {found['exponent']:.2f} (floor {found['floor_exponent']:.2f})"
    failed = [text(goal) for goal in found["goals"] if goal["reached"] is False]
    print(f"{row.name}{slope}")
    for size in found["sizes"]:
        print(
            f"  {size['size']:>8,} {row.unit:<11}{size['seconds']:>9.3f} s"
            f"{size['cpu_seconds']:>9.3f} s CPU   floor {size['floor_seconds']:.3f} s"
            f" {size['floor_cpu_seconds']:.3f} s CPU"
            f"   x {size['ratio']:<6.2f}{size['peak_mb']:>6.0f} MB"
            + "".join(f"   {count:,.0f} {name}" for name, count in size["counts"].items()),
            flush=True,
        )
    for failure in failed:
        print(f"  ! {failure}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[], help="only rows whose names contain one")
    parser.add_argument("--largest", type=int, default=10**9, help="skip larger sizes")
    parser.add_argument("--folder", type=Path, help="where files go; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="print a line a goal as JSON")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        phase, name, size, folder = args.child
        child(phase, name, int(size), Path(folder))
        return
    named = [r for r in rows() if not args.rows or any(row in r.name for row in args.rows)]
    chosen = [row for row in named if min(row.sizes) <= args.largest]
    with ExitStack() as stack:
        if any(row.on_broker for row in chosen) and not os.environ.get(SERVERS_VARIABLE):
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=args.folder))
            broker = EmbeddedBroker(Path(folder) / "kafka")
            broker.heap_mb = 1024
            os.environ[SERVERS_VARIABLE] = stack.enter_context(broker).bootstrap_servers
        for row in chosen:
            sizes = [measured(row, n, args.folder) for n in row.sizes if n <= args.largest]
            found: dict[str, Any] = {
                "unit": row.unit,
                "exponent": exponent(sizes),
                "floor_exponent": exponent(sizes, "floor_cpu_seconds"),
                "sizes": sizes,
            }
            found["goals"] = list(goals(row, found))
            if args.json:
                show(found["goals"], as_json=True)
            else:
                show_row(row, found)


if __name__ == "__main__":
    main()
