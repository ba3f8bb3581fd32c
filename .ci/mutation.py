"""Break the product on purpose, in a copy of the tree: which edit does no test notice?

First the rules that guard data (`rules.py`). Then random mutations of the pure modules, made by
cosmic-ray: a sample of each target, because all of them would take days. `--sample` sets how many,
`--seed` which. Prints every survivor, and exits with 1 if a rule survived or more mutations did
than `--survivors` allows. For a survivor either a test is missing, or the mutation changes nothing
that a user can see.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome
from rules import survivors_of_rules

ROOT = Path(__file__).parents[1]
COPIED = ("schemas", "producers", "consumers", "tests", "pyproject.toml")


@dataclass(frozen=True)
class Target:
    """Modules, and the tests that guard them: in memory, and done in seconds."""

    name: str
    modules: tuple[str, ...]
    tests: str


TARGETS = (
    Target("hive", ("schemas/tidegate/hive",), "tests/hive tests/cleaning/test_plan.py"),
    Target("hudi", ("schemas/tidegate/hudi",), "tests/hudi"),
    Target("events", ("schemas/tidegate/events", "schemas/tidegate/avro"), "tests/events"),
    Target(
        "readers",
        tuple(f"consumers/tidegate/coordinator/{it}.py" for it in ("readers", "vacuums", "memory")),
        "tests/coordinator/test_readers.py tests/coordinator/test_holds.py",
    ),
    Target(
        "plan",
        ("consumers/tidegate/cleaning/plan.py", "consumers/tidegate/cleaning/products.py"),
        "tests/cleaning/test_plan.py tests/cleaning/test_cleaner.py",
    ),
    Target(
        "coordinator",
        ("consumers/tidegate/coordinator/loop.py", "consumers/tidegate/coordinator/rows/store.py"),
        "tests/coordinator/test_loop.py tests/coordinator/test_store.py",
    ),
)


def main() -> int:
    """Break every rule, and a sample of every target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=["rules", *(t.name for t in TARGETS)])
    parser.add_argument("--sample", type=int, default=40, help="mutations of each target")
    parser.add_argument("--seed", type=int, default=0, help="which mutations are drawn")
    parser.add_argument("--survivors", type=int, default=0, help="how many are allowed")
    asked = parser.parse_args()
    survivors = rules = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = copied(Path(folder) / "tree")
        if "rules" in asked.targets:
            rules = survivors_of_rules(copy)
        for target in TARGETS:
            if target.name in asked.targets:
                survivors += judge(target, copy, asked.sample, random.Random(asked.seed))  # noqa: S311
    print(f"{rules} rules and {survivors} random mutations survived")
    return int(rules > 0 or survivors > asked.survivors)


def copied(folder: Path) -> Path:
    """Copy what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def judge(target: Target, copy: Path, sample: int, chance: random.Random) -> int:
    """Run a sample of a target's mutations; print the survivors, and give their number."""
    config, session = copy / f"{target.name}.toml", copy / f"{target.name}.sqlite"
    command = f'{sys.executable} -m pytest -x -q -m "not slow" -p no:cacheprovider {target.tests}'
    config.write_text(
        "[cosmic-ray]\n"
        f"module-path = {list(target.modules)!r}\n"
        "timeout = 120.0\nexcluded-modules = []\n"
        f"test-command = {command!r}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    cosmic_ray("init", config, session, cwd=copy)
    with use_db(session, WorkDB.Mode.open) as work:
        keep(work, sample, chance)
    cosmic_ray("exec", config, session, cwd=copy)
    with use_db(session, WorkDB.Mode.open) as work:
        judged = [(item, result) for item, result in work.completed_work_items]
    alive = [(i, r) for i, r in judged if r.test_outcome == TestOutcome.SURVIVED]
    print(f"{target.name}: {len(alive)} of {len(judged)} survived")
    for item, result in alive:
        [mutation] = item.mutations
        print(f"--- {mutation.module_path}:{mutation.start_pos[0]} {mutation.operator_name}")
        print(result.diff)
    return len(alive)


def keep(work: WorkDB, sample: int, chance: random.Random) -> None:
    """Leave a sample of the work items in the session.

    Mutated `|` operators are left out: nearly all are in annotations, which never run.
    """
    sound = (item for item in work.work_items if "BitOr" not in item.mutations[0].operator_name)
    items = sorted(sound, key=lambda item: str(item.mutations))
    drawn = chance.sample(items, min(sample, len(items)))
    work.clear()
    work.add_work_items(drawn)


def cosmic_ray(command: str, config: Path, session: Path, cwd: Path) -> None:
    """Run one command of the tool."""
    subprocess.run(
        [sys.executable, "-m", "cosmic_ray.cli", command, config.name, session.name],
        cwd=cwd,
        check=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
