"""A cleaner that quarantines, its commands, and a warehouse that can die at every step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.acid import NOON, TABLE
from support.stepwise import Stepwise
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.quarantine import FOLDER
from tidegate.cleaning.settings import CleaningSettings
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    CleaningMode,
    CleaningReleased,
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    CleaningUndoRequested,
    DirectoriesCleaned,
    QuarantineRemovalRequested,
)
from tidegate.tables.warehouse import MayGo, Move, Warehouse, WarehouseRoots

QUARANTINE = CleaningSettings(mode=CleaningMode.QUARANTINE)


def quarantining(
    root: Path, rules: CleaningSettings = QUARANTINE, warehouse: Warehouse | None = None
) -> Cleaner:
    files = warehouse or Warehouse(WarehouseRoots.of(str(root)))
    return Cleaner(files, ThreadMap(2), lambda: NOON, rules)


def clean(cleaner: Cleaner, command: CleaningReleased) -> DirectoriesCleaned:
    *_, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned), cleaned
    return cleaned


def undo_of(
    command: CleaningReleased, request: str = "undo-1", **changes: object
) -> CleaningUndoRequested:
    fields = {
        "event_id": request,
        "table": TABLE,
        "location": command.location,
        "partition": command.partition,
        "occurred_at": NOON,
        "source": "tidegate-cli",
        "cleaning": command.event_id,
        "requested_by": "mara",
        "reason": "a reader had stalled",
    }
    return CleaningUndoRequested.model_validate(fields | changes)


def removal_of(command: CleaningReleased) -> QuarantineRemovalRequested:
    return QuarantineRemovalRequested(
        table=TABLE,
        location=command.location,
        partition=command.partition,
        occurred_at=NOON,
        source="quarantine-keeper",
        caused_by=f"started-{command.event_id}",
        cleaning=command.event_id,
    )


def undo(
    cleaner: Cleaner, command: CleaningUndoRequested
) -> CleaningUndone | CleaningUndoPlanned | CleaningUndoRefused:
    (answer,) = cleaner.execute(command)
    assert isinstance(answer, CleaningUndone | CleaningUndoPlanned | CleaningUndoRefused)
    return answer


def visible(table: Path) -> list[str]:
    """The names in a table's directory that a reader does not pass over."""
    return sorted(path.name for path in table.iterdir() if path.name[0] not in "._")


def in_quarantine(table: Path) -> list[str]:
    return sorted(path.name for path in table.glob(f"{FOLDER}/*/*") if path.is_dir())


class DyingWarehouse(Stepwise):
    """Every move, write and removal is a step."""

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Move]:
        with super().moving(source, target) as move:

            def counted(name: str, as_name: str, may_go: MayGo) -> bool | None:
                self.step()
                return move(name, as_name, may_go)

            yield counted

    moving_back = moving  # as on every place that renames

    def remove_if_empty(self, location: str) -> bool:
        self._step()
        return super().remove_if_empty(location)

    def step(self) -> None:
        """Before each move."""
        self._step()


def steps_of(run: Callable[[DyingWarehouse], object], root: Path) -> int:
    warehouse = DyingWarehouse(root, lambda _: None)
    run(warehouse)
    return warehouse.steps


def every(names: Sequence[str], table: Path) -> bool:
    return all((table / name / "bucket_00000").exists() for name in names)
