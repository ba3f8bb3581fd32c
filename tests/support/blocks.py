"""The blocks of a page, run as a reader would run them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(
    r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_VARYING: Final = {
    r"\d{17}": "INSTANT",
    r"\d{4}-\d\d-\d\dT[\d:.]+Z": "TIME",
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}": "ID",
    r"/\S*/lake\b": "LAKE",
    r"\d+(\.\d+)? ?(s|ms|bytes|B|KiB|MiB)\b": "SIZE",
    r" +": " ",
}
"""What differs from run to run."""
_LONGEST: Final = 500.0
_SOON: Final = 30.0
_READS: Final = ("tidegate status", "tidegate waiting", "tidegate outcomes")


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(found["language"], found["text"]) for found in _BLOCK.finditer(page)]


def section(page: str, heading: str) -> str:
    """A section of a page, without its heading."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def without_varying(output: str) -> str:
    """An output without times, ids, sizes and alignment."""
    for pattern, name in _VARYING.items():
        output = re.sub(pattern, name, output)
    return "\n".join(line.strip() for line in output.strip().splitlines())


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether an output is the one that a page shows; `...` stands for any part of it."""
    parts = map(re.escape, re.split(r" ?\.\.\. ?", without_varying(shown)))
    return re.fullmatch(".*".join(parts), without_varying(printed), re.DOTALL) is not None


def sessions(console: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@dataclass
class Reader:
    """Types what a page shows, in a directory and with an environment of its own.

    Args:
        folder: Where the commands run, and where named files are written.
        env: The environment; `export` lines add to it.
        replaced: What is replaced in every block: the page's address by the test's.
    """

    folder: Path
    env: dict[str, str]
    replaced: Mapping[str, str]
    _groups: list[int] = field(default_factory=list[int])

    def follow(self, page: str) -> None:
        """Write every file, run every command, compare every output."""
        for language, text in blocks_of(page):
            typed = self._typed(text)
            if language == "console":
                for command, expected in sessions(typed):
                    self._compare(command, expected)
            elif language == "sh":
                self.run(typed)
            else:
                name = typed.splitlines()[0].removeprefix("# ")
                (self.folder / name).write_text(typed, "utf-8")

    def _compare(self, command: str, expected: str) -> None:
        """Run a command; repeat one that only reads until the services have caught up."""
        deadline = time.monotonic() + (_SOON if command.startswith(_READS) else 0)
        printed = self.run(command)
        while not is_as_shown(printed, expected) and time.monotonic() < deadline:
            printed = self.run(command)
        assert is_as_shown(printed, expected), f"{command} printed:\n{printed}"

    def _typed(self, text: str) -> str:
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        return text

    def run(self, script: str) -> str:
        """Run a script; it must succeed. What it exports holds for the next ones too."""
        exported = self.folder.parent / "exported"
        # files, not pipes: what runs in the background would keep a pipe open
        with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
            program = subprocess.Popen(
                ["bash", "-euc", f"{script}\nenv -0 > {exported}"],
                cwd=self.folder,
                env=self.env,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            self._groups.append(program.pid)
            code = program.wait(_LONGEST)
            output.seek(0)
            errors.seek(0)
            shown = output.read()
            assert code == 0, f"{script}\n{shown}\n{errors.read()}"
        lines = exported.read_text("utf-8").rstrip("\0").split("\0")
        self.env.update({name: value for name, _, value in (line.partition("=") for line in lines)})
        return shown

    def stop(self) -> None:
        """End what runs in the background: first the services, then the broker."""
        for group in reversed(self._groups):
            for signal_ in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(group, signal_)
                    _await_end(group)


def _await_end(group: int) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        os.killpg(group, 0)
        time.sleep(0.1)
