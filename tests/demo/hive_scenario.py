"""Hive: the cleaning after a vacuum waits for the last reader.

Hive calls such a vacuum a compaction: three deltas are merged into one.
"""

from __future__ import annotations

from pathlib import Path

from demo.environment import DemoEnvironment
from demo.hive_upstream import READERS, TABLE, Upstream
from demo.report import DemoReport
from tidegate.events import DirectoriesCleaned
from tidegate.publisher import ConfirmedProducer, Message

INVALID = b"this is not an Avro event"
ENDS = "{}'s query ends: its lock is given back to the Metastore"
ANA, BEN = (f"{reader}@{host}" for reader, host in READERS.items())


def run(environment: DemoEnvironment, report: DemoReport, upstream: Upstream) -> None:
    """Run the scenario.

    Raises:
        TidegateError: a check failed, or an outcome did not come.
    """
    report.heading("Hive: clean up after a vacuum (a compaction) while two readers are at work")
    with report.step("Insert three times, then vacuum (real ORC files)"):
        vacuumed = upstream.vacuum()
    table, snapshot, location = vacuumed.table, vacuumed.snapshot, vacuumed.table.location
    rows = table.read(snapshot)
    names = ", ".join([*vacuumed.inserted, *vacuumed.made])
    report.detail(f"{names}; {len(rows)} rows; Ana and Ben read the table")
    with report.step(
        "The bridge finds the compaction in the Metastore, with the locks of Ana and Ben"
    ):
        upstream.wait_until_published(vacuumed)
        environment.wait_until_idle()
    _check_nothing_removed(report, location, vacuumed.directories)
    _check_waiting_for(environment, report, ANA, BEN)
    with report.step(f"{ENDS.format('Ana')}; a message comes that is not an event"):
        upstream.end("ana")
        _publish_invalid_message(environment)
        environment.wait_until_idle()
    _check_nothing_removed(report, location, vacuumed.directories)
    dead_letters = environment.dead_letters()
    report.check(
        "the invalid message is unchanged in the dead letters",
        met=dead_letters == [INVALID],
        found=dead_letters,
    )
    with report.step("Kill all of them (SIGKILL) and start them again"):
        environment.kill_services()
        environment.start_services()
        environment.wait_until_idle()
    _check_nothing_removed(report, location, vacuumed.directories)
    _check_waiting_for(environment, report, BEN)
    with report.step(f"{ENDS.format('Ben')}, the last one"):
        upstream.end("ben")
        done = environment.wait_for("DirectoriesCleaned", lambda: _cleaned(environment))
    report.detail(
        f"removed: {', '.join(done.directories)} ({done.files} files, {done.bytes:,} bytes)"
    )
    report.check(
        "exactly the obsolete directories were removed",
        met=_names(location) == sorted(vacuumed.made),
    )
    report.check("the table has the same rows as before", met=table.read(snapshot) == rows)
    report.check(
        "SHOW COMPACTIONS says succeeded, and the next insert is read with the others",
        met=upstream.insert_once_more(vacuumed),
    )


def _check_waiting_for(environment: DemoEnvironment, report: DemoReport, *owners: str) -> None:
    shown = environment.run_command("waiting")
    waited = [line.rpartition(" of ")[2] for line in shown.splitlines() if "waits for lock" in line]
    report.check("that is who is waited for", met=sorted(waited) == sorted(owners), found=waited)


def _publish_invalid_message(environment: DemoEnvironment) -> None:
    producer = ConfirmedProducer({"bootstrap.servers": environment.deployment.servers})
    producer.send([Message(f"{environment.prefix}.locks", TABLE.encode(), INVALID)])
    producer.close()


def _cleaned(environment: DemoEnvironment) -> DirectoriesCleaned | None:
    done = [e for e in environment.outcomes() if isinstance(e, DirectoriesCleaned)]
    return done[0] if done else None


def _check_nothing_removed(report: DemoReport, location: Path, expected: list[str]) -> None:
    names = _names(location)
    report.check("nothing was removed yet", met=names == sorted(expected), found=names)


def _names(location: Path) -> list[str]:
    """What Hive sees: the claims of workers are in a hidden folder."""
    return sorted(path.name for path in location.iterdir() if not path.name.startswith("."))
