"""The cleaner's plan and removal over directories that are values, with the real planner."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, Final

from support.interleavings.explore import Step
from support.interleavings.scenario import LOCATION
from support.interleavings.world import Directories, Directory, Removing, World, sorted_directories
from tidegate.cleaning.listing import ListedDirectory
from tidegate.errors import TransientError
from tidegate.events import CleaningReleased
from tidegate.storage import ListedFile
from tidegate.tables.refusal import Refused

if TYPE_CHECKING:
    from support.interleavings.steps import Model

_FILES: Final = (ListedFile("_orc_acid_version", 1), ListedFile("bucket_00000", 900))


class CleanerOfWorlds:
    """Takes a command, plans, removes phase by phase, and plans again until nothing is left.

    A command that waits or is refused stays: then no end is reachable, which is found.
    """

    def __init__(self, model: Model) -> None:
        """Take the rules and the commands from a model."""
        self._model = model
        self._plans: dict[tuple[Directories, int], Removing | str | None] = {}

    def steps(self, world: World) -> Iterator[Step[World]]:
        """What it does next, and how it may die."""
        if world.zombie is not None:
            for label, after, left in self._removed(world, world.zombie):
                name = f"the cleaner that lives on {label}"
                yield name, False, after._replace(zombie=left)
        if world.removing is not None:
            for label, after, left in self._removed(world, world.removing):
                yield f"cleaner {label}", False, after._replace(removing=left)
            yield from self._cut_short(world, world.removing)
        elif world.commands:
            planned = self._planned(world.directories, world.commands[0])
            if isinstance(planned, Removing):
                yield "cleaner plans", False, world._replace(removing=planned)
            elif planned is None:
                done = world._replace(commands=world.commands[1:])
                yield "cleaner finds nothing left", False, done

    def disks(self, world: World) -> Iterator[Directories]:
        """The directories as readers may see them amid what is being removed now, in any order."""
        under_way = [
            _subsets(removal.phases[0])
            for removal in (world.removing, world.zombie)
            if removal is not None and not self._has_changed(world, removal)
        ]
        parts = {frozenset(chain.from_iterable(parts)) for parts in product(*under_way)}
        return (_without(world.directories, part) for part in parts)

    def _planned(self, directories: Directories, number: int) -> Removing | str | None:
        """The directories to remove; None: nothing; a text: it waits, or is refused."""
        key = (directories, number)
        if key not in self._plans:
            self._plans[key] = self._plan(directories, number)
        return self._plans[key]

    def _plan(self, directories: Directories, number: int) -> Removing | str | None:
        command = self._model.events[number]
        if not isinstance(command, CleaningReleased):
            raise TypeError(f"event {number} is not a command")
        by_name = {directory.name: directory for directory in directories}
        try:
            plan = self._model.rules.plan(
                [_listed(directory) for directory in directories], command
            )
        except (Refused, TransientError) as error:
            return f"{type(error).__name__}: {error}"
        if not plan.remove:
            return None
        return Removing(
            tuple(tuple(move.name for move in phase) for phase in plan.phases),
            tuple(by_name[move.name] for move in plan.remove),
            tuple(by_name[product_.name] for product_ in plan.products),
        )

    def _removed(
        self, world: World, removing: Removing
    ) -> Iterator[tuple[str, World, Removing | None]]:
        """Remove a phase's directories, if they and the products are as they were planned.

        Readers are looked at for every order in which they may go: see `disks`.
        """
        if self._has_changed(world, removing):
            yield "sees that the table changed", world, None
            return
        phase, *later = removing.phases
        after = world._replace(directories=_without(world.directories, phase))
        left = removing._replace(phases=tuple(later)) if later else None
        yield f"removes {', '.join(phase)}", after, left

    def _has_changed(self, world: World, removing: Removing) -> bool:
        there = {directory.name: directory.rows for directory in world.directories}
        planned = {directory.name: directory.rows for directory in removing.planned}
        checked = removing.products if self._model.rules.checks_products else ()
        return any(there.get(directory.name, 0) != directory.rows for directory in checked) or any(
            there[phase] not in {None, planned[phase]}
            for phase in removing.phases[0]
            if phase in there
        )

    def _cut_short(self, world: World, removing: Removing) -> Iterator[Step[World]]:
        """It dies after any of a phase's directories, perhaps amid the files of another one."""
        commands = world.commands if self._model.rules.plans_again else world.commands[1:]
        stopped = world._replace(removing=None, commands=commands)
        there = {directory.name for directory in world.directories}
        changed = self._has_changed(world, removing)
        phase = () if changed else tuple(phase for phase in removing.phases[0] if phase in there)
        for gone in _subsets(phase):
            left = _without(world.directories, gone)
            if (after := self._model.fault(stopped, "cleaner dies")) is not None:
                label = f"cleaner dies after {', '.join(gone) or 'nothing'}"
                yield label, True, after._replace(directories=left)
                for name in sorted(set(phase) - set(gone)):
                    emptied = after._replace(directories=_emptied(left, name))
                    yield f"{label} and amid {name}", True, emptied
        if (after := self._model.fault(stopped, "cleaner lives on")) is not None:
            yield "cleaner is taken for dead", True, after._replace(zombie=removing)


def _listed(directory: Directory) -> ListedDirectory:
    files = () if directory.rows is None else _FILES
    return ListedDirectory(directory.name, LOCATION, files)


def _emptied(directories: Directories, name: str) -> Directories:
    return sorted_directories(
        directory._replace(rows=None) if directory.name == name else directory
        for directory in directories
    )


def _without(directories: Directories, names: Collection[str]) -> Directories:
    return tuple(directory for directory in directories if directory.name not in names)


@cache
def _subsets(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    counts = range(len(names) + 1)
    return tuple(chain.from_iterable(combinations(names, count) for count in counts))
