"""Random histories of a hand-made table between its savepoints, as Hudi's writers make them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import fastavro

from support.hudi_tables import HandMade, at, end_of, savepoint_request, ticking, warehouse_over
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, SavepointCreated
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi_reader.table import HudiTable, load_table
from tidegate.savepoints.derivation import InDoubt
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.incremental import derive_savepoint, list_savepoint
from tidegate.savepoints.plan import SavepointPlan
from tidegate.savepoints.rules import MOST_DERIVED
from tidegate.storage import Storage
from tidegate.tables.refusal import Refused

PARTITIONS = tuple(f"p{number}" for number in range(5))
_Group = tuple[str, str]


def opened(table: HandMade) -> HudiTable:
    return load_table(Storage(), table.location)


def keep(table: HandMade, instant: str | None = None) -> Outcome:
    """Have a savepoint written; each time it is another request."""
    request = savepoint_request(table, instant, event_id=str(uuid4()))
    writer = SavepointWriter(warehouse_over(table.path.parent), ThreadMap(1), ticking())
    (outcome,) = writer.execute(request)
    return outcome


def derived(table: HandMade, commit: str) -> SavepointPlan | str:
    """The derived plan, or why there is none."""
    try:
        return derive_savepoint(opened(table), commit, ThreadMap(1), MOST_DERIVED)
    except InDoubt as doubt:
        return str(doubt)


def listed(table: HandMade, commit: str) -> SavepointPlan | None:
    """The judge: a plan from nothing but the table. None: files of the commit are gone."""
    try:
        return list_savepoint(opened(table), commit, None, ThreadMap(1))
    except Refused:
        return None


def kept(plan: SavepointPlan | None) -> dict[str, tuple[str, ...]]:
    """The files of the partitions that have any, in the plan's order."""
    assert plan is not None
    return {path: names for path, names in plan.files.items() if names}


def clean(table: HandMade, instant: str, partitions: list[str], bound: str = "") -> None:
    """A completed clean that removed files of these partitions."""
    strings = {"type": "map", "values": "string"}
    fields = [
        {"name": "earliestCommitToRetain", "type": "string"},
        {"name": "partitionMetadata", "type": strings},
    ]
    record = {"earliestCommitToRetain": bound, "partitionMetadata": dict.fromkeys(partitions, "")}
    content = io.BytesIO()
    schema = {"type": "record", "name": "HoodieCleanMetadata", "fields": fields}
    fastavro.writer(content, schema, [record])
    table.put(Instant(instant, Action.CLEAN, InstantState.REQUESTED))
    table.put(Instant(instant, Action.CLEAN, InstantState.INFLIGHT))
    done = Instant(instant, Action.CLEAN, InstantState.COMPLETED, end_of(instant))
    table.put(done, content.getvalue())


def remove_instants(table: HandMade, *instants: str, action: str = "") -> None:
    """Remove all files of these instants from the timeline, but those of savepoints."""
    for path in table.timeline.iterdir():
        time = path.name.lstrip(".")[:17]
        if time in instants and "savepoint" not in path.name and action in path.name:
            path.unlink()


def remove_savepoint(table: HandMade, instant: str) -> None:
    for path in table.timeline.glob(f"*{instant}*savepoint*"):
        path.unlink()


def roll_back(table: HandMade, instant: str, target: str) -> None:
    """A completed rollback of a write that was pending: its files and instants are gone."""
    for path in table.path.glob(f"*/*_{target}.*"):
        path.unlink()
    remove_instants(table, target)
    for state in InstantState:
        completion = end_of(instant) if state is InstantState.COMPLETED else None
        table.put(Instant(instant, Action.ROLLBACK, state, completion), b"rollback")


@dataclass
class Story:
    """A table of random writes; `steps` makes so many of them."""

    table: HandMade
    chance: random.Random
    minute: int = 0
    slices: dict[_Group, str] = field(default_factory=dict[_Group, str])
    """Of each group in use, the base instant of its newest slice."""
    pending: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Of each pending write, its groups by partition."""
    compactions: dict[str, _Group] = field(default_factory=dict[str, _Group])
    derived: int = 0
    doubts: list[str] = field(default_factory=list[str])

    @property
    def is_merge_on_read(self) -> bool:
        return "MERGE_ON_READ" in (self.table.path / ".hoodie/hoodie.properties").read_text()

    def now(self) -> str:
        self.minute += 1
        return at(self.minute)

    def some(self) -> dict[str, str]:
        """Groups of some partitions: rewritten ones and new ones."""
        partitions = self.chance.sample(PARTITIONS, self.chance.randint(1, 3))
        busy = {*self.compactions.values(), *(g for p in self.pending.values() for g in p.items())}
        found = dict[str, str]()
        for partition in partitions:
            known = [g for p, g in self.slices if p == partition and (p, g) not in busy]
            new = f"g{self.minute}{partition}"
            found[partition] = self.chance.choice([*known, new]) if known else new
        return found

    def write(self) -> None:
        instant, groups = self.now(), self.some()
        self.table.commit(instant, None, groups)
        self.slices |= dict.fromkeys(groups.items(), instant)

    def delta(self) -> None:
        if not self.is_merge_on_read or not self.slices:
            return self.write()
        (partition, group), since = self.chance.choice(sorted(self.slices.items()))
        self.table.delta(self.now(), {partition: group}, since)
        return None

    def replace(self) -> None:
        groups = [slice_ for slice_ in self.slices if slice_ not in self.compactions.values()]
        if not groups:
            return
        partition, group = self.chance.choice(sorted(groups))
        instant = self.now()
        new = f"r{self.minute}"
        to = self.chance.choice([{partition: new}, {}])
        self.table.replace(instant, {partition: [group]}, to)
        del self.slices[partition, group]
        self.slices |= dict.fromkeys(to.items(), instant)

    def begin(self) -> None:
        instant, groups = self.now(), self.some()
        self.table.begin(instant)
        for partition, group in groups.items():
            self.table.data(instant, group, partition)
        self.pending[instant] = groups

    def finish(self) -> None:
        if self.pending:
            instant = self.chance.choice(sorted(self.pending))
            groups = self.pending.pop(instant)
            self.table.commit(instant, None, groups, end_of(self.now()))
            for item in groups.items():
                self.slices[item] = max(instant, self.slices.get(item, ""))

    def roll_back(self) -> None:
        if self.pending:
            target = self.chance.choice(sorted(self.pending))
            del self.pending[target]
            roll_back(self.table, self.now(), target)

    def schedule(self) -> None:
        groups = [slice_ for slice_ in self.slices if slice_ not in self.compactions.values()]
        if self.is_merge_on_read and groups:
            group = self.chance.choice(sorted(groups))
            instant = self.now()
            self.table.schedule(instant, dict([group]))
            self.compactions[instant] = group
            if self.table.version == 6:
                self.slices[group] = instant

    def compact(self) -> None:
        if self.compactions:
            instant = self.chance.choice(sorted(self.compactions))
            group = self.compactions.pop(instant)
            self.table.compact(instant, dict([group]), at(0), end_of(self.now()))
            self.slices[group] = max(instant, self.slices[group])

    def clean(self) -> None:
        """Remove base files of older slices that no savepoint keeps."""
        pinned = set[str]()
        for path in self.table.timeline.glob("*.savepoint"):
            files = SavepointMetadata.decode(path.read_bytes()).files
            pinned |= {f"{p}/{name}" for p, names in files.items() for name in names}
        committed = {i.timestamp for i in opened(self.table).timeline.completed_writes}
        newest = {(p, g): s for (p, g), s in self.slices.items()}
        busy = {group for _, group in self.compactions.values()}
        touched = set[str]()
        for path in sorted(self.table.path.glob("p*/g*.parquet")):
            group, _, instant = path.stem.split("_")
            older = newest.get((path.parent.name, group), "") > instant
            name = f"{path.parent.name}/{path.name}"
            if older and instant in committed and name not in pinned and group not in busy:
                path.unlink()
                touched.add(path.parent.name)
        clean(self.table, self.now(), sorted(touched))

    def archive(self) -> None:
        """Remove the oldest completed writes from the timeline, up to the first savepoint."""
        timeline = opened(self.table).timeline
        first = min(timeline.savepoints, default="")
        held = min([*self.pending, *self.compactions, first])
        old = [i.timestamp for i in timeline.completed_writes if i.timestamp < held][:2]
        remove_instants(self.table, *old)

    def remove_savepoint(self) -> None:
        savepoints = sorted(opened(self.table).timeline.savepoints)
        if len(savepoints) > 1 or (savepoints and self.chance.random() < 0.3):
            remove_savepoint(self.table, self.chance.choice(savepoints[:2]))

    def savepoint(self) -> None:
        """Judge what would be derived, and write one."""
        timeline = opened(self.table).timeline
        commits = [c.timestamp for c in timeline.completed_writes[-3:]]
        free = [commit for commit in commits if commit not in timeline.savepoints]
        if not free:
            return
        commit = self.chance.choice([free[-1], self.chance.choice(free)])
        expected, found = listed(self.table, commit), derived(self.table, commit)
        if expected is None:
            assert isinstance(found, str)
            return
        if isinstance(found, str):
            self.doubts.append(found)
        else:
            self.derived += 1
            assert kept(found) == kept(expected)
            assert (found.bytes, found.file_count) == (expected.bytes, expected.file_count)
        outcome = keep(self.table, commit)
        assert isinstance(outcome, SavepointCreated), outcome
        assert (outcome.files, outcome.bytes) == (expected.file_count, expected.bytes)

    def steps(self, count: int) -> None:
        likely: list[tuple[Callable[[], None], int]] = [
            (self.write, 4),
            (self.delta, 4),
            (self.savepoint, 6),
            (self.replace, 1),
            (self.begin, 1),
            (self.finish, 2),
            (self.roll_back, 1),
            (self.schedule, 1),
            (self.compact, 1),
            (self.clean, 1),
            (self.archive, 1),
            (self.remove_savepoint, 1),
        ]
        actions = [action for action, _ in likely]
        weights = [weight for _, weight in likely]
        for action in self.chance.choices(actions, weights, k=count):
            action()


def story(folder: Path, seed: int, version: int, kind: str) -> Story:
    """A new table with one commit and its savepoint."""
    chance = random.Random(f"{seed} {version} {kind}")  # noqa: S311 - the same in every run
    table = HandMade(folder / f"t{seed}", version).create(hoodie__table__type=kind)
    shown = Story(table, chance)
    shown.write()
    shown.savepoint()
    return shown
