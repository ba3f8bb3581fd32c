"""A writer of real Hudi that has begun and waits in the middle of its write, until it may go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from support.merge_on_read import loaded
from support.real_hudi import RealTable, Row
from tidegate.hudi.instant import InstantState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONGEST: Final = 60.0


@dataclass
class GatedWriter:
    """Order of calls: `begun`, then once `ends`; what it failed with is in `error`."""

    table: RealTable
    gate: Path
    instant: str = ""
    error: Exception | None = None
    _thread: threading.Thread | None = field(default=None, repr=False)

    def start(self, data: list[Row], operation: str, more: Mapping[str, str]) -> None:
        """Start it, and wait until its write is on the timeline."""
        before = {write.timestamp for write in loaded(self.table).timeline.writes}

        def write() -> None:
            try:
                self.table.write(data, operation, more, through=self._waiting)
            except Exception as error:  # noqa: BLE001 - the test judges it
                self.error = error

        self._thread = threading.Thread(target=write, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + _LONGEST
        while time.monotonic() < deadline and self._thread.is_alive():
            pending = {
                write.timestamp
                for write in loaded(self.table).timeline.writes
                if write.state is not InstantState.COMPLETED
            }
            if pending - before and self.gate.with_suffix(".reached").exists():
                (self.instant,) = pending - before
                return
            time.sleep(0.02)
        raise AssertionError(f"the writer did not begin: {self.error}")

    def ends(self) -> None:
        """Let it go on, and wait until it has committed or failed."""
        assert self._thread is not None
        self.gate.touch()
        self._thread.join(_LONGEST)
        assert not self._thread.is_alive()

    @property
    def is_committed(self) -> bool:
        """Whether its commit is on the timeline now."""
        now = loaded(self.table).timeline
        return self.instant in {write.timestamp for write in now.completed_writes}

    def _waiting(self, frame: DataFrame) -> DataFrame:
        """The rows, which arrive when the gate is opened: Hudi reads them after it has begun."""
        from pyspark.sql.functions import col, udf  # noqa: PLC0415 - comes with Spark

        gate, reached, longest = str(self.gate), str(self.gate.with_suffix(".reached")), _LONGEST

        def wait(value: str) -> str:
            import os  # noqa: PLC0415 - runs in a worker of Spark
            import pathlib  # noqa: PLC0415
            import time as clock  # noqa: PLC0415

            pathlib.Path(reached).touch()
            until = clock.monotonic() + longest
            while not os.path.exists(gate) and clock.monotonic() < until:  # noqa: PTH110
                clock.sleep(0.01)
            return value

        return frame.coalesce(1).withColumn("v", udf(wait, "string")(col("v")))


@contextmanager
def writing(
    table: RealTable,
    gate: Path,
    data: list[Row],
    operation: str = "upsert",
    more: Mapping[str, str] = MappingProxyType({}),
) -> Generator[GatedWriter]:
    """A writer that has begun; at the end it is let go, if it still waits."""
    writer = GatedWriter(table, gate)
    try:
        writer.start(data, operation, more)
        yield writer
    finally:
        writer.ends()
