"""Of any history that Hudi's cleaner made, the commits that matter give the same savepoint."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from support.hudi_tables import at, end_of
from tidegate.hudi.commit import CommitMetadata, WriteStat
from tidegate.hudi.file_slice import SliceRules
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.partitions import PartitionFiles
from tidegate.savepoints.plan import SavepointPlan, commits_to_read, plan_savepoint
from tidegate.tables.refusal import Refused


def written(minute: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(at(minute), action, InstantState.COMPLETED, end_of(at(minute)))


@dataclass
class Table:
    """A copy-on-write table in memory: what is written, replaced and cleaned."""

    commits: dict[Instant, CommitMetadata] = field(default_factory=dict[Instant, CommitMetadata])
    versions: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The minutes of the files of each group that are there."""
    newest: dict[str, int] = field(default_factory=dict[str, int])
    """Of groups in use, the minute of the last write."""
    replaced_at: dict[str, int] = field(default_factory=dict[str, int])
    bound: str | None = None

    def write(self, minute: int, groups: Iterable[str], replaced: Iterable[str] = ()) -> None:
        stats = list[WriteStat]()
        for group in groups:
            before = self.newest.get(group)
            previous = None if before is None else at(before)
            path = f"p/{group}_0-1-2_{at(minute)}.parquet"
            stats.append(WriteStat("p", group, path, previous, 1))
            self.versions.setdefault(group, []).append(minute)
            self.newest[group] = minute
        gone = tuple(replaced)
        for group in gone:
            del self.newest[group]
            self.replaced_at[group] = minute
        action = Action.REPLACE_COMMIT if gone else Action.COMMIT
        made = CommitMetadata(tuple(stats), {"p": gone} if gone else {})
        self.commits[written(minute, action)] = made

    def clean_by_versions(self, kept: int) -> None:
        for group, minutes in self.versions.items():
            del minutes[: 0 if group in self.replaced_at else -kept]
            if group in self.replaced_at:
                minutes.clear()
        self.bound = ""

    def clean_by_commits(self, kept: int) -> None:
        minutes = [at(minute) for minute in range(60)]
        times = sorted(commit.timestamp for commit in self.commits)
        bound = times[-kept] if len(times) >= kept else times[0]
        for group, there in self.versions.items():
            before = [instant for instant in there if minutes[instant] <= bound]
            replaced = self.replaced_at.get(group)
            if replaced is not None and minutes[replaced] < bound:
                there.clear()
            else:
                self.versions[group] = there[max(0, len(before) - 1) :]
        self.bound = bound

    def plan(self, commit: str, chosen: Iterable[Instant]) -> SavepointPlan | str:
        names = {
            f"{group}_0-1-2_{at(minute)}.parquet": 1
            for group, minutes in self.versions.items()
            for minute in minutes
        }
        commits = ((instant.timestamp, self.commits[instant]) for instant in chosen)
        try:
            return plan_savepoint(commit, self.rules, commits, [PartitionFiles("p", names)])
        except Refused as refused:
            return refused.reason

    @property
    def rules(self) -> SliceRules:
        return SliceRules(Timeline.of(self.commits), Layout.TWO)

    @property
    def names(self) -> list[str]:
        return [f"{g}_0-1-2_{at(m)}.parquet" for g, ms in self.versions.items() for m in ms]


def random_table(chance: random.Random) -> Table:
    table, groups = Table(), 0
    replaces, by_versions = chance.random() < 0.5, chance.random() < 0.5
    for minute in range(chance.randint(2, 14)):
        known = list(table.newest)
        again = chance.sample(known, chance.randint(0, len(known)))
        new = [f"g{groups + n}" for n in range(chance.randint(0 if again else 1, 2))]
        groups += len(new)
        others = [instant for instant in known if instant not in again]
        drops = replaces and others and chance.random() < 0.3
        replaced = chance.sample(others, chance.randint(1, len(others))) if drops else []
        table.write(minute, [*again, *new], replaced)
        if chance.random() < 0.4:
            if chance.random() < 0.1:
                by_versions = not by_versions
            clean = table.clean_by_versions if by_versions else table.clean_by_commits
            clean(chance.randint(1, 3))
    return table


@pytest.mark.parametrize("seed", range(20))
def test_a_savepoint_of_what_matters_is_that_of_all_commits(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same tables in every run
    for _ in range(50):
        table = random_table(chance)
        everything = table.rules.timeline.completed_writes
        bound = table.bound if table.bound is not None else everything[0].timestamp
        for commit in everything:
            if bound and commit.timestamp < bound:
                continue
            chosen = commits_to_read(commit.timestamp, bound, table.rules, table.names)
            expected = table.plan(commit.timestamp, everything)
            assert table.plan(commit.timestamp, chosen) == expected


def test_both_verdicts_and_left_out_commits_are_among_them() -> None:
    chance = random.Random(1)  # noqa: S311 - the same tables in every run
    verdicts, left_out = set[str](), 0
    for _ in range(300):
        table = random_table(chance)
        everything = table.rules.timeline.completed_writes
        for commit in everything:
            found = table.plan(commit.timestamp, everything)
            verdicts.add(found if isinstance(found, str) else "planned")
            chosen = commits_to_read(commit.timestamp, table.bound, table.rules, table.names)
            left_out += len(everything) - len(chosen)
    assert verdicts == {"missing-files", "planned"}
    assert left_out > 300


@pytest.mark.parametrize("layout", list(Layout))
def test_delta_commits_whose_files_do_not_name_them_are_read(layout: Layout) -> None:
    delta = written(1, Action.DELTA_COMMIT)
    rules = SliceRules(Timeline.of([delta, written(2), written(3)]), layout)

    chosen = commits_to_read(at(3), at(3), rules, [f"g_0-1-2_{at(3)}.parquet"])

    assert chosen == ((written(3), delta) if layout is Layout.ONE else (written(3),))


def test_replacements_come_first_so_that_what_they_replaced_is_known() -> None:
    replacements = [written(minute, Action.REPLACE_COMMIT) for minute in (1, 3)]
    rules = SliceRules(Timeline.of([*replacements, written(2), written(4)]), Layout.TWO)

    chosen = commits_to_read(at(4), at(1), rules, [])

    assert chosen == (replacements[1], replacements[0], written(4), written(2))
