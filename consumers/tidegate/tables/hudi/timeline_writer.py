"""Write and remove the files of a timeline, safe with concurrent processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.hudi import Instant, InstantState, next_instant
from tidegate.hudi_reader import HudiTable
from tidegate.tables.warehouse import AlreadyExists, Warehouse


@dataclass(frozen=True, slots=True)
class TimelineWriter:
    """Changes the timeline of one table."""

    warehouse: Warehouse
    table: HudiTable
    clock: Callable[[], datetime]

    def new_instant(self) -> str:
        """The current time as an instant, greater than every instant of the current timeline."""
        now = self.table.reloaded().timeline.greatest
        return next_instant(self.clock(), self.table.properties.zone, now)

    def begin(self, instant: Instant, content: bytes = b"") -> bool:
        """Create a requested or inflight file; False if it exists already."""
        try:
            self.warehouse.create(self.table.path_of(instant), content)
        except AlreadyExists:
            return False
        return True

    def complete(self, instant: Instant, content: bytes) -> None:
        """Create the completed file. If two processes create one, the earlier completion stays.

        In layout 2 the name contains the completion time, so both files may exist. The process that
        lists the timeline last sees both and removes the later one.
        """
        done = replace(instant, state=InstantState.COMPLETED, completion=self.new_instant())
        self.begin(done, content)
        twins = [
            i
            for i in self.table.reloaded().files
            if (i.timestamp, i.action, i.state) == (done.timestamp, done.action, done.state)
        ]
        self.remove(sorted(twins, key=lambda i: i.completion or "")[1:])

    def remove(self, instants: Iterable[Instant]) -> None:
        """Remove the files of instants, with Hadoop's checksums."""
        paths = [self.table.path_of(instant) for instant in instants]
        self.warehouse.remove_files(paths, checksums=True)
