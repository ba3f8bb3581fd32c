"""The numbers of the tasks that claim a location, see `tidegate.tables.claim`.

Spark's executors import this module, so it needs nothing but the standard library and the store.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import FormatError, TidegateError, TransientError
from tidegate.storage import NotFound, join
from tidegate.tables.warehouse import Warehouse

FRESH_SECONDS: Final = 1.0
"""How long a check counts within one step that consists of many calls."""
_NAME: Final = re.compile(r"([1-9][0-9]{0,18})(\.done|\.plan|\.again[1-9][0-9]*|)")
_MOST: Final = 2**62 - 1
"""The limit of numbers in events."""
# it counts the time for which the machine was suspended, too
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Overtaken(TidegateError):  # noqa: N818 - an expected result, not a fault
    """A task with a higher number is on the table. The catcher ends its own."""

    def __init__(self, message: str, highest: int = 0) -> None:
        """Take the highest number on the table. Picklable: Spark's executors raise it."""
        self.highest = highest
        super().__init__(message)


class AnyClaim:
    """What a worker checks before its steps. This one never raises.

    It is for a caller that is alone at a location, such as a test.
    """

    def check(self) -> None:
        """Check that no other task or worker has the location, right before a step."""

    def check_if_old(self) -> None:
        """Check within a step, if the last check is old."""

    def planned(self, plan: str) -> str:
        """The plan of the task's first attempt."""
        return plan

    @property
    def numbers(self) -> AnyClaim:
        """The part of the claim that Spark's executors can check."""
        return self


NO_CLAIM: Final = AnyClaim()


@dataclass(slots=True)
class TaskNumbers(AnyClaim):
    """The numbers on a location, and the one of this task. Picklable."""

    warehouse: Warehouse
    folder: str
    number: int
    earlier: Mapping[int, bool] = field(default_factory=dict[int, bool])
    """The tasks that claimed the location before; whether each has its last outcome."""
    _checked_at: float = 0.0

    def check(self) -> None:
        """List the claims again.

        Raises:
            Overtaken: end the task, without a further step.
            TransientError: the claim is gone, or another worker of this task is done.
        """
        found = self.newest()
        if (self.number, "") not in found or (self.number, ".done") in found:
            raise TransientError(f"task {self.number} has no claim at {self.folder}, or is done")

    def check_if_old(self) -> None:
        """Check within a step, if the last check is old."""
        if self.is_old:
            self.check()

    @staticmethod
    def outlast() -> None:
        """Wait until no check counts that was made before now."""
        time.sleep(max(0.0, FRESH_SECONDS))

    @property
    def is_old(self) -> bool:
        """Whether the last check is more than FRESH_SECONDS old."""
        return time.clock_gettime(_CLOCK) - self._checked_at > FRESH_SECONDS

    def newest(self) -> Mapping[tuple[int, str], str]:
        """The paths of the claims at the location, by number and suffix.

        Raises:
            Overtaken: there is a higher number.
            FormatError: a claim is not a file, or has a number that no task can have.
        """
        began = time.clock_gettime(_CLOCK)  # a claim that comes during a slow listing is not in it
        found = self.found()
        if (highest := max((n for n, _ in found), default=0)) > self.number:
            late = f"task {self.number} at {self.folder} comes after task {highest}"
            raise Overtaken(late, highest)
        self.earlier = {n: (n, ".done") in found for n, _ in found if n < self.number}
        self._checked_at = began
        return found

    def found(self) -> Mapping[tuple[int, str], str]:
        """The paths of the claims at the location, by number and suffix."""
        try:
            files = self.warehouse.list(join(self.folder, "tasks"))
        except NotFound:
            return {}
        named = [(name, file) for file in files if (name := _NAME.fullmatch(file.name))]
        if strange := next((file for _, file in named if file.is_link or file.is_dir), None):
            raise FormatError(f"{strange.path} is not a file")
        numbers = {(int(name[1]), name[2]): file.path for name, file in named}
        if (highest := max(numbers, default=(0, "")))[0] > _MOST:
            raise FormatError(f"{numbers[highest]} has a number that no task can have")
        return numbers
