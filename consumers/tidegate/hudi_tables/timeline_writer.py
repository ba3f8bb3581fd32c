"""Writing and removing the files of a timeline, beside another process that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.hudi import Instant, State, next_instant
from tidegate.hudi_reader import HudiTable
from tidegate.storage import join
from tidegate.warehouse import AlreadyThere, Warehouse


def with_checksum(location: str) -> list[str]:
    """A file and, on a local disk, the checksum that Hadoop keeps beside it."""
    if "://" in location:
        return [location]
    folder, name = location.rsplit("/", 1)
    return [location, join(folder, f".{name}.crc")]


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
        self.warehouse.remove_files([file for path in paths for file in with_checksum(path)])
