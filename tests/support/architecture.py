"""The rules of the house, read off the syntax tree: each check takes text, names what it saw."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.generated import write_generated

# Calls that write or remove on whatever object they are called.
_WRITING_METHODS = {
    *("write_text", "write_bytes", "unlink", "rmdir", "mkdir", "touch", "chmod", "rename"),
    *("symlink_to", "hardlink_to", "rm", "rm_file", "pipe", "pipe_file", "mv", "cp_file"),
    *("put_file", "makedirs", "mkdirs", "rmtree", "delete", "save", "saveAsTable", "insertInto"),
}
# Calls whose names strings and mappings have too: by the number of positional arguments.
_WRITING_BY_ARGUMENTS = {"replace": (1,), "copy": (2, 3), "move": (2, 3)}
_WRITING_OF_OS = {
    *("remove", "unlink", "rename", "renames", "replace", "rmdir", "removedirs", "mkdir"),
    *("makedirs", "link", "symlink", "truncate", "chmod", "chown", "utime", "write", "mkfifo"),
    *("open", "system", "popen"),
}
_WRITING_MODULES = {"shutil", "tempfile", "subprocess", "ctypes", "fcntl"}
_READING_FLAGS = {
    f"os.{name}" for name in ("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
}
_CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "perf_counter", "sleep"}
_CHANCE = {"uuid1", "uuid4", "token_hex", "urandom"}
_MODE = re.compile(r"[rwaxbt+]{1,4}")


def writes(source: str) -> list[str]:
    """Everything in a module that writes or removes files, as `line: what`.

    A mode that is not a literal counts as writing: the text does not show that it only reads.
    """
    seen = [f"{line}: import {name}" for line, name in _imports(source) if name in _WRITING_MODULES]
    seen += [f"{call.lineno}: {ast.unparse(call.func)}" for call in _calls(source) if _writes(call)]
    return sorted(seen, key=lambda line: int(line.split(":")[0]))


def impure(source: str) -> list[str]:
    """Every clock, chance and open() in a module, as `line: what`."""
    return [
        f"{call.lineno}: {ast.unparse(call.func)}"
        for call in _calls(source)
        if _name(call) in _CLOCKS | _CHANCE | {"open"}
    ]


def layers_of(contract: dict[str, object]) -> list[set[str]]:
    """The packages of a layers contract, the highest layer first."""
    layers = contract["layers"]
    assert isinstance(layers, list)
    return [{name.strip(" ()") for name in re.split("[|:]", layer)} for layer in layers]


def misplaced(packages: dict[str, set[str]], layers: list[set[str]]) -> list[str]:
    """The packages that no layer names, or that lie in a folder against the order of the layers.

    Args:
        packages: The packages of each folder, the highest floor first.
        layers: The packages of each layer, the highest first.
    """
    depth = {name: number for number, layer in enumerate(layers) for name in layer}
    wrong: list[str] = []
    ceiling = -1
    for folder, names in packages.items():
        wrong += [f"{folder}/{name}" for name in sorted(names) if depth.get(name, -1) <= ceiling]
        ceiling = max((depth[name] for name in names if name in depth), default=ceiling)
    return wrong


def _writes(call: ast.Call) -> bool:
    name, function = _name(call), call.func
    if name == "open":
        return _opens_for_writing(call)
    if isinstance(function, ast.Attribute):
        if isinstance(function.value, ast.Name) and function.value.id == "os":
            return name in _WRITING_OF_OS
        if name in _WRITING_BY_ARGUMENTS:
            return len(call.args) in _WRITING_BY_ARGUMENTS[name] and not call.keywords
        return name in _WRITING_METHODS
    return False


def _opens_for_writing(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "os.open":
        flags = call.args[1] if len(call.args) > 1 else None
        return not (flags and set(ast.unparse(flags).split(" | ")) <= _READING_FLAGS)
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes += call.args[1:2]
    if not all(isinstance(mode, ast.Constant) for mode in modes):
        return True
    # Path.open has its mode first; open() and a file system's open have it second
    modes += call.args[:1] if isinstance(call.func, ast.Attribute) else []
    return any(isinstance(mode, ast.Constant) and _is_writing(str(mode.value)) for mode in modes)


def _is_writing(mode: str) -> bool:
    return _MODE.fullmatch(mode) is not None and bool(set(mode) & set("wax+"))


def _calls(source: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _imports(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


if __name__ == "__main__":
    here = Path(__file__).parents[2]
    write_generated(here)
