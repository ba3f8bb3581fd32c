"""What every benchmark prints: a line a goal, as text or with --json as JSON.

    {"goal": ..., "ours": ..., "peer": ..., "ratio": ..., "wanted": ..., "reached": ...}

Where there is a peer, `ratio` is ours by the peer's and `wanted` its limit; else `wanted` limits
ours. Without a limit `wanted` and `reached` are null: it is printed to be known.

Every benchmark runs from a checkout with `.venv/bin/python benchmarks/NAME.py`; `--help` has its
options. What it shares with the tests (a Metastore, a judge) it finds beside itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))


def line(
    goal: str,
    ours: float,
    wanted: float | None = None,
    *,
    peer: float | None = None,
    at_least: bool = False,
) -> Line:
    """A goal, reached where what is judged is at most (or at least) what is wanted."""
    ratio = None if peer is None else ours / peer
    judged = ours if ratio is None else ratio
    reached = None
    if wanted is not None:
        reached = judged >= wanted if at_least else judged <= wanted
    return {
        "goal": f"{goal} (at least)" if at_least else goal,
        "ours": _short(ours),
        "peer": None if peer is None else _short(peer),
        "ratio": None if ratio is None else _short(ratio),
        "wanted": wanted,
        "reached": reached,
    }


def _short(number: float) -> float:
    """Three digits that count, all of a large one."""
    return round(number) if abs(number) >= 1000 else float(f"{number:.3g}")  # noqa: PLR2004


def text(shown: Line) -> str:
    """A line for people."""
    beside = ""
    if shown["peer"] is not None:
        beside = f"; peer {shown['peer']:,}, ratio {shown['ratio']:,}"
    wanted = "" if shown["wanted"] is None else f" (wanted {shown['wanted']:,})"
    missed = "   ! missed" if shown["reached"] is False else ""
    return f"{shown['goal']}: {shown['ours']:,}{beside}{wanted}{missed}"


def show(lines: Iterable[Line], *, as_json: bool) -> None:
    """Print each as soon as it is known."""
    for goal in lines:
        print(json.dumps(goal) if as_json else text(goal), flush=True)
