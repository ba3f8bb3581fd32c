"""A hook of mkdocs: pages that are not files in docs/, and options that no line is broken in.

ARCHITECTURE.md stays at the root, where readers of the code expect it. The list of modules is made
from their docstrings, so that it is never out of date and never in a diff.
"""

from __future__ import annotations

import ast
import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = ("schemas", "producers", "consumers")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*(?=[^<>]*</code>)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages. mkdocs calls this by its name, before it resolves the navigation."""
    architecture = (ROOT / "ARCHITECTURE.md").read_text("utf-8").replace("](docs/", "](")
    for name, text in {"architecture.md": architecture, "modules.md": modules_page()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_content(html: str, **_: object) -> str:
    """Keep each option in one line: a browser may break a line after either of its dashes."""
    return OPTION.sub(r'<span class="option">\g<0></span>', html)


def modules_page() -> str:
    """Every module with the first line of its docstring: a section per package."""
    lines = ["# Modules", "", "The first line of every module, read from the source."]
    for source_root in (ROOT / name for name in SOURCE_ROOTS):
        modules = sorted(source_root.rglob("*.py"), key=lambda path: (path.parent, path.name))
        for package, found in groupby(modules, key=lambda path: path.parent):
            name = ".".join(package.relative_to(source_root).parts)
            lines += ["", f"## {name}", "", f"In `{source_root.name}`.", ""]
            lines += [f"- `{path.name}`: {_first_line(path)}" for path in found]
    return "\n".join([*lines, ""])


def _first_line(module: Path) -> str:
    return (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").split("\n")[0]
