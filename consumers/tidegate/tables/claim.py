"""A worker's claim on a table: the number of its task, in a small hidden folder of the location.

    .tidegate/owner          which deployment and table the location belongs to
    .tidegate/tasks/7        the id of task 7: no task with a lower number changes anything any more
    .tidegate/tasks/7.plan   what task 7 decided before its first step
    .tidegate/tasks/7.again1 another process began task 7: its first one has perhaps died of it
    .tidegate/tasks/7.done   the last outcomes of task 7: a repeat publishes them again

A Hudi table has the folder in `.hoodie`, a Hive table or partition in its own directory; of a
partitioned table the folder in its directory has just the owner. Hudi, Hive and Spark ignore hidden
names. Every file is created exclusively, with its content.

The claim makes stalled workers, repeats, copies and replays of tasks harmless. It is the only thing
that can tell that two names mean one location. It can't prevent a pause between a check and the one
call after it: no store changes a file on condition of another one.

    TidegateError
    ├── Overtaken     end the task; publish the number: the coordinator may not know it
    ├── AlreadyDone   end the task; publish its outcomes
    └── NumberTaken   end the task; the coordinator continues above the number
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import (
    ConfinementError,
    FormatError,
    PermanentError,
    TidegateError,
    TransientError,
)
from tidegate.events import Outcome
from tidegate.events.reasons import Reason
from tidegate.events.topics import EVENT_TYPES
from tidegate.storage import NotFound, Storage, is_below, join
from tidegate.storage.locations import place_of
from tidegate.tables.refusal import Refused, refusal_of
from tidegate.tables.task_numbers import TaskNumbers
from tidegate.tables.warehouse import AlreadyExists, Warehouse

HIVE: Final = ".tidegate"
HUDI: Final = ".hoodie/.tidegate"
MOST_STARTS: Final = 20
"""A task that so many processes began and none ended is given up: it may have killed them."""
_LARGEST: Final = 32 * 2**20
"""Bytes of the last outcomes of a task, as JSON."""


class AlreadyDone(TidegateError):  # noqa: N818 - an expected result, not a fault
    """The task has its last outcomes. The catcher publishes them again and does nothing else."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        """Take the outcomes that are on the table."""
        self.outcomes = outcomes
        super().__init__("the task has its last outcome")


class NumberTaken(TidegateError):  # noqa: N818 - an expected result, not a fault
    """Another task has this number: the coordinator's rows were lost, and others were accepted."""

    def __init__(self, number: int) -> None:
        """Take the number, which is the highest on the table."""
        self.number = number
        super().__init__(f"another task has the number {number}")


@dataclass(frozen=True, slots=True)
class Task:
    """A task, as far as its claim needs it."""

    number: int
    """Counts up by table; never used twice."""
    id: str
    table: str
    deployment: str
    """The id of the Kafka cluster and the prefix of the topics."""
    is_first: bool = False
    """Whether this is the process's first attempt at it."""


@dataclass(slots=True)
class Claim(TaskNumbers):
    """The claim of one attempt at a task.

    Order of calls: `take`, before anything is changed; `check`, right before each irreversible
    step; `finish`, before the outcomes are published.
    """

    task: Task = field(kw_only=True)

    @property
    def numbers(self) -> TaskNumbers:
        """The part of the claim that Spark's executors can check."""
        return TaskNumbers(self.warehouse, self.folder, self.number)

    @classmethod
    def take(
        cls,
        warehouse: Warehouse,
        location: str,
        folder: str,
        task: Task,
        *,
        table: str | None = None,
    ) -> Claim:
        """Claim a location below the roots. The folder is made only where a table is.

        `table` is the directory of the table that the location is a partition of: it has one owner
        too, so no other name can claim a partition that no task has changed yet.

        Raises:
            Overtaken, AlreadyDone, NumberTaken: do nothing.
            Refused: the location belongs to another table or deployment, does not exist, or its
                folder can't be read.
            OSError: the store is full, or refuses to create a file.
            PermanentError: the task is given up, see `MOST_STARTS`.
        """
        where = join(location, folder)
        claim, is_repeated = cls(warehouse, where, task.number, task=task), False
        try:
            if table is not None:
                claim._require_owner(join(table, folder))
            claim._require_owner(where)
            claim.newest()
            try:
                warehouse.create(claim._path(), task.id.encode())
            except AlreadyExists:  # an earlier attempt, another worker, or another task
                is_repeated = True
                if claim._read("") != task.id:
                    raise NumberTaken(task.number) from None
            found = claim.newest()
            if (task.number, ".done") in found:
                raise AlreadyDone(claim._outcomes())
            if is_repeated and task.is_first:
                claim._count_start(found)
            claim.check()
        except (ConfinementError, FormatError) as error:
            raise refusal_of(error) from error
        except NotFound as error:
            raise TransientError(f"{error} is gone") from error
        return claim

    def _count_start(self, found: Collection[tuple[int, str]]) -> None:
        """Another process began the task before, and did not end it."""
        starts = sum(n == self.number and text.startswith(".again") for n, text in found) + 1
        if starts >= MOST_STARTS:
            raise PermanentError(
                f"task {self.number} is given up: {starts} processes began it, and none ended"
                " it. Find out what ends them, then redrive it"
            )
        with suppress(AlreadyExists):  # another worker counts at the same time
            self.warehouse.create(self._path(f".again{starts}"), b"")

    def check(self) -> None:
        """List the claims again.

        Raises:
            Overtaken, AlreadyDone: end the task, without a further step.
            TransientError: the claim is gone or can't be read: the next attempt claims again.
        """
        try:
            found = self.newest()
            if (self.number, ".done") in found:
                raise AlreadyDone(self._outcomes())
        except (ConfinementError, FormatError) as error:
            raise TransientError(f"the claims can't be read: {error}") from error
        if (self.number, "") not in found:
            raise TransientError(f"{self._path()} is gone")

    def overtake(self) -> None:
        """Wait until no earlier task that claimed the location does anything more.

        What remains is a pause between a check and the one call after it.
        """
        if not all(self.earlier.values()):
            self.outlast()

    def has_begun(self, number: int, command: str) -> bool:  # noqa: ARG002 - see the restorer
        """Whether an earlier task, which carries this command, may have changed the table."""
        return number in self.earlier

    def outcomes_of(self, number: int) -> Sequence[Outcome]:
        """The last outcomes of an earlier task; none: it is not done.

        Raises:
            Exception: as `check`.
        """
        try:
            return self._outcomes(number) if self.earlier.get(number) else ()
        except FormatError as error:
            raise TransientError(str(error)) from error

    def planned(self, plan: str) -> str:
        """Record what this task decided; return the decision of its first attempt, if there is one.

        Raises:
            Exception: as `check`.
        """
        self.check()
        with suppress(AlreadyExists):
            self.warehouse.create(self._path(".plan"), plan.encode())
        return self._read(".plan")

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Record the last outcomes, then remove the claims of earlier tasks.

        Returns:
            The outcomes to publish; those on the table if another worker of this task was faster.

        Raises:
            Exception: as `check`, but for AlreadyDone.
        """
        rows = [{"kind": type(o).__name__, "outcome": o.model_dump(mode="json")} for o in outcomes]
        try:
            self.check()
            self.warehouse.create(self._path(".done"), json.dumps(rows).encode())
        except AlreadyDone as done:
            return done.outcomes
        except AlreadyExists:
            return self._outcomes()
        earlier = [path for (n, _), path in self.found().items() if n < self.number]
        self.warehouse.remove_files(earlier)
        return outcomes

    def _require_owner(self, folder: str) -> None:
        path, location = join(folder, "owner"), folder.rpartition("/")[0]
        ours = {"deployment": self.task.deployment, "table": self.task.table}
        try:
            found = owner_of(self.warehouse, folder)
        except NotFound:
            try:
                self.warehouse.names(location)
            except NotFound as error:
                self._require_root(location)
                raise Refused(Reason.NO_SUCH_TABLE, f"there is no directory {location}") from error
            with suppress(AlreadyExists):
                self.warehouse.create(path, json.dumps(ours).encode())
            found = owner_of(self.warehouse, folder)
        if found != ours:
            theirs, mine = found["table"], self.task.table
            if found["deployment"] != self.task.deployment:
                theirs += f" of the deployment {found['deployment']}"
                mine += f" of {self.task.deployment}"
            raise Refused(
                Reason.LOCATION_OF_ANOTHER_TABLE,
                f"the location belongs to {theirs}, not to {mine}: see {path}",
            )

    def _require_root(self, location: str) -> None:
        """A table is not dropped where its local root is gone: that is not mounted, for example."""
        where = self.warehouse.roots.below(location)
        for root in self.warehouse.roots.roots:
            if is_below(where, root) and not place_of(root):
                try:
                    self.warehouse.names(root)
                except NotFound as error:
                    raise TransientError(f"the warehouse root {root} is gone: mount it") from error

    def _read(self, suffix: str, limit: int = MAX_SMALL, number: int | None = None) -> str:
        path = self._path(suffix, number)
        try:
            return self.warehouse.read(path, limit).decode()
        except NotFound as error:
            raise TransientError(f"{path} is gone") from error
        except UnicodeDecodeError as error:
            raise FormatError(f"{path} is not text") from error

    def _outcomes(self, number: int | None = None) -> Sequence[Outcome]:
        path = self._path(".done", number)
        try:
            stored = parse_json(self._read(".done", _LARGEST, number), path, _LARGEST)
            found = [EVENT_TYPES[row["kind"]].model_validate(row["outcome"]) for row in stored]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(f"the outcomes in {path} can't be read: {error}") from error
        outcomes = [outcome for outcome in found if isinstance(outcome, Outcome)]
        if len(outcomes) < len(found) or not outcomes:
            raise FormatError(f"{path} has no outcomes, or other events")
        return outcomes

    def _path(self, suffix: str = "", number: int | None = None) -> str:
        return join(self.folder, "tasks", f"{number or self.number}{suffix}")


def owner_of(storage: Storage, folder: str) -> dict[str, str]:
    """The `deployment` and the `table` that a location with this folder belongs to.

    Raises:
        NotFound: no task has claimed it yet.
        FormatError: the file names no owner.
    """
    path = join(folder, "owner")
    found = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
    is_owner = isinstance(found, dict) and found.keys() == {"deployment", "table"}
    if not is_owner or not all(isinstance(value, str) for value in found.values()):
        raise FormatError(f"{path} does not name a deployment and a table")
    return dict[str, str](found)
