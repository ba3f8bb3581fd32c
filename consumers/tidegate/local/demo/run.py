"""Run the demo: start everything, run both scenarios, check the outcomes on the topic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigError, TidegateError
from tidegate.local.demo import hive_scenario, hudi_scenario
from tidegate.local.demo.environment import DemoEnvironment
from tidegate.local.demo.hive_upstream import Upstream
from tidegate.local.demo.report import DemoReport
from tidegate.local.embedded import resolve

EXPECTED: Final = {
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


def run_demo(folder: Path) -> int:
    """Run the demo in a new directory; return the exit code: 0 if all checks passed, else 1.

    Raises:
        ConfigError: the directory exists and is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty: give the demo a new or an empty directory")
    report = DemoReport()
    try:
        run_scenarios(folder.absolute(), report)
    except TidegateError as error:
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
    locks = {"kafka": "Kafka", "hudi": "Hudi", "metastore": "the Hive Metastore"}
    with report.step(f"Get the jars of {', '.join(locks.values())}: from the cache or the network"):
        for lock in locks:
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
