"""Draw docs/images/pictures.toml as SVG, one file a picture: `make pictures`."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path
from typing import Any, Final

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
# Narrow, so that the words stay readable on a telephone.
WIDTH: Final = 620
BOX: Final = 62
GAP: Final = 12
ARROW: Final = 46
NAME: Final = 24
# White words on these, in light and dark mode; what lies on the page itself is grey.
STYLE: Final = """\
text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; text-anchor: middle }
.box { fill: #fff; font-size: 16px; font-weight: 600 }
.more { fill: #fff; font-size: 14px }
.name { fill: #5c6873; font-size: 14px; font-weight: 600; text-anchor: start }
.then { fill: #5c6873; font-size: 14px; text-anchor: start }
.arrow { stroke: #7a8794; stroke-width: 2; fill: none }
.event { fill: #35618f } .decide { fill: #6a4c93 } .work { fill: #1f6f5c } .outcome { fill: #8a5a14 }
@media (prefers-color-scheme: dark) { .name, .then { fill: #aab4be } .arrow { stroke: #aab4be } }"""


def draw(picture: dict[str, Any]) -> str:
    """A picture as SVG."""
    parts: list[str] = []
    y = 4
    for row in picture["rows"]:
        height, drawn = _arrow(row["then"], y) if "then" in row else _boxes(row, y)
        parts += drawn
        y += height
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}"'
            f' width="{WIDTH}" height="{y + 4}" role="img">',
            f"<title>{escape(picture['title'])}</title>",
            f"<style>\n{STYLE}\n</style>",
            *parts,
            "</svg>\n",
        ]
    )


def _boxes(row: dict[str, Any], y: int) -> tuple[int, list[str]]:
    boxes: list[str] = row["boxes"]
    width = (WIDTH - GAP * (len(boxes) - 1)) / len(boxes)
    top = y + NAME
    drawn = [f'<text class="name" x="2" y="{y + 15}">{escape(row["name"])}</text>']
    for number, box in enumerate(boxes):
        x = number * (width + GAP)
        middle = x + width / 2
        title, _, more = box.partition("|")
        baseline = top + (26 if more else 37)
        drawn += [
            f'<rect class="{row["colour"]}" x="{x:.0f}" y="{top}" width="{width:.0f}"'
            f' height="{BOX}" rx="8"/>',
            f'<text class="box" x="{middle:.0f}" y="{baseline}">{escape(title)}</text>',
        ]
        if more:
            drawn.append(
                f'<text class="more" x="{middle:.0f}" y="{top + 47}">{escape(more)}</text>'
            )
    return NAME + BOX, drawn


def _arrow(label: str, y: int) -> tuple[int, list[str]]:
    x, end = WIDTH // 2, y + ARROW
    return ARROW, [
        f'<path class="arrow" d="M{x} {y + 6}V{end - 2}m-6 -8l6 8l6 -8"/>',
        f'<text class="then" x="{x + 16}" y="{y + 30}">{escape(label)}</text>',
    ]


def drawn() -> dict[str, str]:
    """Every picture, by its file's name."""
    pictures = tomllib.loads((IMAGES / "pictures.toml").read_text("utf-8"))
    return {f"{name}.svg": draw(picture) for name, picture in pictures.items()}


if __name__ == "__main__":
    for file, svg in drawn().items():
        (IMAGES / file).write_text(svg, "utf-8")
