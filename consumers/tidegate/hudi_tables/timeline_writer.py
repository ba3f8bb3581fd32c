"""Writing and removing the files of a timeline, beside another process that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.hudi import Instant, State, next_instant
from tidegate.hudi_reader import HudiTable
from tidegate.storage import join
from tidegate.warehouse import AlreadyThere, Warehouse


def checksum_of(location: str) -> str:
    """The checksum that Hadoop's local file system keeps beside a file."""
    folder, name = location.rsplit("/", 1)
    return join(folder, f".{name}.crc")


@dataclass(frozen=True, slots=True)
class TimelineWriter:
    """The timeline of one table, as it can be changed."""

    warehouse: Warehouse
    table: HudiTable
    clock: Callable[[], datetime]

    def new_instant(self) -> str:
        """The present time as an instant, greater than all that the timeline holds right now."""
        now = self.table.reloaded().timeline.greatest
        return next_instant(self.clock(), self.table.properties.zone, now)

    def begin(self, instant: Instant, content: bytes = b"") -> bool:
        """Create a requested or inflight file; False if it was there already."""
        try:
            self.warehouse.create(self.table.path_of(instant), content)
        except AlreadyThere:
            return False
        return True

    def complete(self, instant: Instant, content: bytes) -> None:
        """Create the completed file. Where two processes do, the earlier completion stays.

        In layout 2 the name holds the completion time, so both files can be created: whoever
        looks last sees both and removes the later one.
        """
        done = replace(instant, state=State.COMPLETED, completion=self.new_instant())
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
        self.warehouse.remove_files([p for path in paths for p in (path, checksum_of(path))])
