"""`tidegate`, whose savepoint writer never gets anywhere: `stuck_writer.py <file> <how> <args>`.

It makes `<file>` when it has a command. `how` is `endless` (the call never returns) or `away` (the
storage does not answer, at every attempt).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from tidegate.cli import main
from tidegate.errors import TransientError
from tidegate.events import Command, Outcome
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim


def main_that_is_stuck(reached: Path, how: str) -> None:
    def execute(
        _writer: SavepointWriter,
        _command: Command,
        _claim: AnyClaim = NO_CLAIM,
        _grounds: object = (),
    ) -> Iterator[Outcome]:
        reached.touch()
        if how == "away":
            raise TransientError("the storage does not answer")
        while True:
            time.sleep(0.1)
        yield

    with patch.object(SavepointWriter, "execute", execute):
        main()


if __name__ == "__main__":
    main_that_is_stuck(Path(sys.argv.pop(1)), sys.argv.pop(1))
