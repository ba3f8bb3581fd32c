"""What a command costs at 1, 10 and 100 times the size: seconds, memory, and the exponent.

    .venv/bin/python benchmarks/growth.py [--rows cleaning savepoint] [--largest 5000]
                                          [--folder DIR] [--json]

Every row is measured beside a floor (the bare system calls) in the same process, one process for
each size, so that its peak memory is that size's own. The exponent is the slope of the CPU seconds
between the two largest sizes in a log-log plot: 1 is linear. It is of CPU time because machines
are shared; ratios are of wall-clock time, of calls in turns. `!` marks a goal that was missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROUNDS = 3
MODULES = ("growth_tables",)
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
    """Our time and the floor's."""

    ours: Seconds
    floor: Seconds


@dataclass(frozen=True)
class Goal:
    """The most seconds, and the most times the floor, at the largest size."""

    seconds: float = math.inf
    ratio: float = math.inf


@dataclass(frozen=True)
class Row:
    """What is measured: `prepare` and `measure` get a folder of their own and the size."""

    name: str
    unit: str
    sizes: Sequence[int]
    prepare: Callable[[Path, int], None]
    measure: Callable[[Path, int], Timing]
    goal: Goal = field(default_factory=Goal)


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
    row = next(each for each in rows() if each.name == name)
    if phase == "prepare":
        row.prepare(folder, size)
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
    }


def exponent(sizes: Sequence[dict[str, Any]], seconds: str = "cpu_seconds") -> float | None:
    """The slope between the two largest sizes."""
    if len(sizes) < 2:  # noqa: PLR2004 - a slope needs two points
        return None
    one, other = sizes[-2:]
    return math.log(other[seconds] / one[seconds]) / math.log(other["size"] / one["size"])


def missed(row: Row, sizes: Sequence[dict[str, Any]], found: dict[str, Any]) -> list[str]:
    """The goals that were missed at the largest size. What the floor itself costs is no fault."""
    last = sizes[-1]
    most = max(MOST_EXPONENT, (found["floor_exponent"] or 0) + EXPONENT_ERROR)
    limits = {
        f"exponent {MOST_EXPONENT}": (found["exponent"] or 0) > most,
        f"{MOST_MB} MB": last["peak_mb"] > MOST_MB,
    }
    if last["size"] == row.sizes[-1]:
        limits[f"{row.goal.seconds} s"] = last["seconds"] > row.goal.seconds
        limits[f"{row.goal.ratio} times the floor"] = last["ratio"] > row.goal.ratio
    return [limit for limit, is_missed in limits.items() if is_missed]


def show(row: Row, found: dict[str, Any]) -> None:
    """Print a row as text."""
    slope = ""
    if found["exponent"] is not None:
        slope = f"   exponent {found['exponent']:.2f} (floor {found['floor_exponent']:.2f})"
    print(f"{row.name}{slope}{'   ! ' + ', '.join(found['missed']) if found['missed'] else ''}")
    for each in found["sizes"]:
        print(
            f"  {each['size']:>8,} {row.unit:<11}{each['seconds']:>9.3f} s"
            f"{each['cpu_seconds']:>9.3f} s CPU   floor {each['floor_seconds']:.3f} s"
            f" {each['floor_cpu_seconds']:.3f} s CPU"
            f"   x {each['ratio']:<6.2f}{each['peak_mb']:>6.0f} MB"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[], help="only rows whose names contain one")
    parser.add_argument("--largest", type=int, default=10**9, help="skip larger sizes")
    parser.add_argument("--folder", type=Path, help="where files go; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        phase, name, size, folder = args.child
        child(phase, name, int(size), Path(folder))
        return
    report: dict[str, Any] = {}
    for row in rows():
        if args.rows and not any(each in row.name for each in args.rows):
            continue
        sizes = [measured(row, n, args.folder) for n in row.sizes if n <= args.largest]
        found = {
            "unit": row.unit,
            "exponent": exponent(sizes),
            "floor_exponent": exponent(sizes, "floor_cpu_seconds"),
            "sizes": sizes,
        }
        report[row.name] = found | {"missed": missed(row, sizes, found)}
        if not args.json:
            show(row, report[row.name])
    if args.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
