"""What a restore does, as a value: the plan is the dry run. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tidegate.hudi import BaseFile, CommitMetadata, Instant, InstantInfo, State
from tidegate.hudi_reader import Partition

METADATA_TABLE: Final = ".hoodie/metadata"
MARKERS: Final = ".hoodie/.temp"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to delete: its path below the table, its bytes (0 where it is gone already)."""

    partition: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Step:
    """One instant to roll back, with its data files."""

    target: InstantInfo
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """The instants to roll back, in order (newest first).

    `resumes` is the pending restore that an earlier attempt left, `begun_for` the command it was
    begun for. `plan_id`, `files` and `bytes` are then those of that attempt as far as it noted
    them, while `steps` are what remains.
    """

    savepoint: str
    steps: tuple[Step, ...]
    plan_id: str
    files: int
    bytes: int
    resumes: str | None = None
    begun_for: str | None = None

    @property
    def targets(self) -> tuple[InstantInfo, ...]:
        """The instants alone."""
        return tuple(step.target for step in self.steps)


def plan_of(savepoint: str, steps: tuple[Step, ...]) -> PlannedRestore:
    """Count the steps and give the plan its id, a hash of its content."""
    content = json.dumps([savepoint, [asdict(step) for step in steps]], sort_keys=True)
    files = [file for step in steps for file in step.files]
    return PlannedRestore(
        savepoint=savepoint,
        steps=steps,
        plan_id=hashlib.sha256(content.encode()).hexdigest()[:32],
        files=len(files),
        bytes=sum(file.size for file in files),
    )


def plan_step(
    instant: Instant, commit: CommitMetadata | None, partitions: Iterable[Partition]
) -> Step:
    """Find the data files of one instant, as Hudi does for copy-on-write tables.

    A completed write names them in its metadata; those of an inflight one are found by listing,
    by the instant in their names; a requested one has none.
    """
    target = InstantInfo(instant.timestamp, str(instant.action))
    if instant.state is State.REQUESTED:
        return Step(target, ())
    if commit is None:
        found = _by_listing(instant.timestamp, partitions)
    else:
        sizes = {partition.path: partition.sizes for partition in partitions}
        found = _by_metadata(instant.timestamp, commit, sizes)
    return Step(target, tuple(sorted(found, key=lambda f: f.path)))


def _by_metadata(
    timestamp: str, commit: CommitMetadata, sizes: Mapping[str, Mapping[str, int]]
) -> Iterable[PlannedFile]:
    for stat in commit.writes:
        name = stat.path.rsplit("/", 1)[-1]
        base = BaseFile.parse(name)
        if base is not None and base.instant == timestamp:
            size = sizes.get(stat.partition, {}).get(name, 0)
            yield PlannedFile(stat.partition, stat.path, size)


def _by_listing(timestamp: str, partitions: Iterable[Partition]) -> Iterable[PlannedFile]:
    for partition in partitions:
        for name, size in partition.sizes.items():
            base = BaseFile.parse(name)
            if base is not None and base.instant == timestamp:
                path = f"{partition.path}/{name}" if partition.path else name
                yield PlannedFile(partition.path, path, size)
