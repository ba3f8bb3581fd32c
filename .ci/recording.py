"""Record a run of `make demo` as docs/images/demo.svg, with shortened waits."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "docs" / "images" / "demo.svg"
COLUMNS, ROWS = 104, 24
CHARACTER, LINE, MARGIN = 8.4, 19, 14
SHORTEST, LONGEST, SPEED, END = 0.15, 1.5, 3.0, 8.0
COLOURS: Final = {1: "red", 2: "green", 9: "red", 10: "green"}
SPINS, STANDS = "\x1b[?25l", "\x1b[?25h"
ERASED: Final = "\x1b[2K"
STYLE: Final = """\
text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d8dee6 }
.bold { font-weight: 700 } .dim { fill: #98a4b0 } .green { fill: #7fd18b } .red { fill: #ff8f84 }
@media (prefers-reduced-motion: reduce) { #lines { animation: none } }"""


def main() -> None:
    """Run the demo, and write the picture if every check passed."""
    with tempfile.TemporaryDirectory() as folder:
        lines = record([sys.executable, "-m", "demo", f"{folder}/demo"])
    TARGET.write_text(picture(lines), "utf-8")


def record(command: list[str]) -> list[tuple[float, Text]]:
    """The lines that a command prints, each with its time in seconds."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "PYTHONUNBUFFERED": "1"}
    env["PYTHONPATH"] = str(ROOT / "tests")
    lines: list[tuple[float, Text]] = []
    started = time.monotonic()
    spinning = False
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as program:
        for raw in program.stdout or ():
            line = raw.decode().rstrip("\n")
            spinning = SPINS in line or (spinning and STANDS not in line)
            if not spinning:
                text = Text.from_ansi(line.rpartition(ERASED)[2])
                lines.append((time.monotonic() - started, text))
    if program.returncode:
        raise SystemExit(f"the demo exited with {program.returncode}")
    return lines


def picture(lines: list[tuple[float, Text]]) -> str:
    """The lines as an SVG that scrolls."""
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    shown = [0.0]
    for (before, _), (after, _) in pairwise(lines):
        shown.append(shown[-1] + min(max((after - before) / SPEED, SHORTEST), LONGEST))
    total = shown[-1] + END
    steps = [
        f"{100 * at / total:.2f}% {{ transform: translateY({(ROWS - number) * LINE}px) }}"
        for number, at in enumerate(shown, 1)
    ]
    last = f"transform: translateY({(ROWS - len(lines)) * LINE}px)"
    texts = "\n".join(_line(number, text) for number, (_, text) in enumerate(lines))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">
<title>A run of make demo: every step, with its checks</title>
<style>
@keyframes scroll {{ {" ".join(steps)} 100% {{ {last} }} }}
#lines {{ {last}; animation: scroll {total:.1f}s step-end infinite }}
{STYLE}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>
<clipPath id="screen"><rect y="{MARGIN}" width="{width}" height="{ROWS * LINE}"/></clipPath>
<g clip-path="url(#screen)"><g id="lines">
{texts}
</g></g>
</svg>
"""


def _line(number: int, text: Text) -> str:
    y = MARGIN + (number + 1) * LINE - 5
    parts: list[str] = []
    for words, style, _ in text.render(Console(width=COLUMNS)):
        colour = COLOURS.get(style.color.number or 0, "") if style and style.color else ""
        names = [name for name in ("bold", "dim") if style and getattr(style, name)]
        parts.append(f'<tspan class="{" ".join([*names, colour])}">{escape(words)}</tspan>')
    length = f' textLength="{len(text) * CHARACTER:.1f}"' if len(text) else ""
    return f'<text x="{MARGIN}" y="{y}"{length} xml:space="preserve">{"".join(parts)}</text>'


if __name__ == "__main__":
    main()
