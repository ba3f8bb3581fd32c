"""Run the demo: start everything, run both scenarios, check the outcomes on the topic."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from demo import hive_scenario, hudi_scenario
from demo.environment import DemoEnvironment
from demo.hive_upstream import Upstream
from demo.report import DemoReport
from support.embedded_metastore import HIVE_4
from support.spark import HUDI
from tidegate.embedded.broker import KAFKA
from tidegate.embedded.jars import resolve
from tidegate.errors import TidegateError

EXPECTED = {
    "SavepointCreated": 2,
    "SavepointsChecked": 1,
    "RestorePlanned": 1,
    "RestoreStarted": 1,
    "RestoreCompleted": 1,
    "CleaningStarted": 1,
    "DirectoriesCleaned": 1,
    "TaskEnded": 5,
}
"""How many outcomes of each kind the two scenarios have; no others are expected."""


def main() -> int:
    """Run the demo in a new directory; the exit code: 0 if all checks passed, else 1."""
    parser = ArgumentParser(prog="make demo", description="The complete story on real parts.")
    new = Path("demo-runs") / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    parser.add_argument(
        "folder", type=Path, nargs="?", default=new, help="a new directory; default: in demo-runs"
    )
    folder: Path = parser.parse_args().folder
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder} is not empty: give the demo a new or an empty directory")
    report = DemoReport()
    try:
        run_scenarios(folder.absolute(), report)
    except (TidegateError, AssertionError) as error:
        report.console.print(f"[bold red]failed:[/] {error}", highlight=False)
        report.detail(f"Tables, settings and logs are in {folder}")
        return 1
    return 0


def run_scenarios(folder: Path, report: DemoReport) -> None:
    """Run everything.

    Raises:
        TidegateError: a check failed, or a part could not be started.
    """
    report.heading("Setup")
    locks = {"Kafka": KAFKA, "Hudi": HUDI, "the Hive Metastore": HIVE_4.lock}
    with report.step(f"Get the jars of {', '.join(locks)}: from the cache or the network"):
        for lock in locks.values():
            resolve(lock)
    started = DemoEnvironment(folder, report, with_metastore=True)
    with started as environment, environment.publisher() as publisher:
        hudi_scenario.run(environment, report, publisher)
        hive_scenario.run(environment, report, Upstream(environment))
        _check_outcomes(environment, report)
    report.durations()


def _check_outcomes(environment: DemoEnvironment, report: DemoReport) -> None:
    report.heading("All outcomes on the topic")
    environment.wait_until_idle()
    outcomes = environment.outcomes()
    shown = environment.run_command("outcomes")
    kinds = {type(outcome).__name__ for outcome in outcomes} - {"TaskEnded"}  # the coordinator's
    missing = [kind for kind in kinds if kind not in shown]
    report.check("each kind of outcome is shown", met=not missing, found=missing)
    answers = Counter((type(event), event.caused_by) for event in outcomes)
    repeated = [answer for answer, count in answers.items() if count > 1]
    report.check("no command has two outcomes of a kind", met=not repeated, found=repeated)
    counts = Counter(type(event).__name__ for event in outcomes)
    report.check("every command has its outcome", met=counts == EXPECTED, found=counts)


if __name__ == "__main__":
    sys.exit(main())
