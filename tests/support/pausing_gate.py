"""`tidegate`, whose reader gate stops in the middle of its work: `pausing_gate.py <file> <args>`.

Before it decides on the release of LOCK it makes `<file>.reached`, and waits for `<file>`.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from tidegate.cli import main
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects
from tidegate.events import Event, LockReleased

LOCK = 0


def reached(go_on: Path) -> Path:
    """Give the file that says that the gate has stopped."""
    return go_on.with_suffix(".reached")


def main_with_a_pause(go_on: Path) -> None:
    handle = ReaderGate.handle

    def pausing(gate: ReaderGate, event: Event, rows: Store, at: datetime) -> Effects:
        if isinstance(event, LockReleased) and event.lock_id == LOCK:
            reached(go_on).touch()
            while not go_on.exists():
                time.sleep(0.05)
        return handle(gate, event, rows, at)

    with patch.object(ReaderGate, "handle", pausing):
        main()


if __name__ == "__main__":
    main_with_a_pause(Path(sys.argv.pop(1)))
