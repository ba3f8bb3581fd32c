"""The rows of growth.py about the reports: what waits, outcomes, and what is known of a table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from bus import vacuum
from growth import Goal, Row, Seconds, Timing, timed
from growth_bus import PARTITIONS, WHO, Deployment, prepare_outcomes, publish, released

from tidegate.cli.exit_codes import ExitCode
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import DirectoriesCleaned
from tidegate.events.topics import CHANGELOG, OUTCOME_TOPIC, partition_of
from tidegate.events.wire import Wire

HOLDS: Final = 20
TABLE: Final = "hive.db.t1"
LARGE_NAMES: Final = 30_000
"""Directories of an outcome of about 800 kB: more than our own services write into one."""


def prepare_waiting(folder: Path, size: int) -> None:
    """As many waiting vacuums of twenty holds, and the reader gate's state of them."""
    deployment = Deployment(folder)
    publish(deployment, (vacuum(number, HOLDS) for number in range(size)))
    with deployment.bus() as bus:
        loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
        left = size
        while left > 0:
            left -= loop.step(0.1)
        loop.close()


def measure_waiting(folder: Path, _: int) -> Timing:
    """`tidegate waiting`, beside a bare consumer of the changelog."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(CHANGELOG.suffix, bus)
        count = sum(1 for _ in bus.read(spans))
    floor = timed(lambda: deployment.bare_consume(spans, count))
    ours = timed(lambda: deployment.command("waiting"))
    as_json = timed(lambda: deployment.command("waiting", "--json"))
    return Timing(ours, floor, {"ms of --json, all of them": as_json.wall * 1000})


def prepare_large_outcomes(folder: Path, size: int) -> None:
    """Outcomes of one table, near the largest message."""
    deployment = Deployment(folder)
    topic = OUTCOME_TOPIC.name(deployment.prefix)
    names = tuple(f"delta_{number:07}_{number:07}_0000" for number in range(LARGE_NAMES))
    fields = {**WHO, "files": 1, "bytes": 1, "duration_ms": 1, "directories": names}
    sent = Wire().serialize(DirectoriesCleaned.about(released(TABLE), **fields), topic)
    message = (topic, sent.key or b"", sent.value or b"", list(sent.headers))
    home, at = partition_of(TABLE, PARTITIONS), int(WHO["occurred_at"].timestamp() * 1000)
    deployment.produce((*message, home, at) for _ in range(size))


def measure_reports(folder: Path, _: int) -> Timing:
    """The newest outcomes, what is known of a table, and the status, beside a bare consumer."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(OUTCOME_TOPIC.suffix, bus)
    floor = timed(lambda: deployment.bare_consume(spans))
    commands = {
        "outcomes": ("outcomes",),
        "outcomes of a table": ("outcomes", "--table", TABLE, "--json"),
        "explain": ("explain", TABLE),
        "status": ("status",),
    }
    seconds = {
        name: timed(partial(_asked, deployment, *arguments)) for name, arguments in commands.items()
    }
    ours = Seconds(
        sum(second.wall for second in seconds.values()),
        sum(second.cpu for second in seconds.values()),
    )
    return Timing(ours, floor, {f"ms of {k}": v.wall * 1000 for k, v in seconds.items()})


def _asked(deployment: Deployment, *arguments: str) -> None:
    try:
        deployment.command(*arguments)
    except SystemExit as end:
        # no service runs here, which is what the status's exit code says
        if arguments != ("status",) or end.code != ExitCode.FAILED:
            raise


ROWS = tuple(
    Row(name, unit, sizes, prepare, measure, Goal(), on_broker=True)
    for name, unit, sizes, prepare, measure in (
        (
            "waiting, vacuums of 20 holds",
            "vacuums",
            (1_000, 10_000, 100_000),
            prepare_waiting,
            measure_waiting,
        ),
        (
            "outcomes, explain and status",
            "outcomes",
            (10_000, 100_000, 1_000_000),
            prepare_outcomes,
            measure_reports,
        ),
        (
            "outcomes, explain and status, of 800 kB each",
            "outcomes",
            (5, 50, 500),
            prepare_large_outcomes,
            measure_reports,
        ),
    )
)
