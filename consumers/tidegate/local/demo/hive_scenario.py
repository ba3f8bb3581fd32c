"""Hive: the cleaning after a vacuum waits for the last reader.

Hive calls such a vacuum a compaction: three deltas are merged into one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from tidegate.events import DirectoriesCleaned, LockHold, LockType, VacuumKind
from tidegate.hive import ValidWriteIds
from tidegate.local.demo.acid_orc import AcidTable
from tidegate.local.demo.environment import DemoEnvironment
from tidegate.local.demo.report import DemoReport
from tidegate.publisher import ConfirmedProducer, Message, Publisher

TABLE: Final = "hive.default.table_txn_001"
SNAPSHOT: Final = "default.table_txn_001:3:9223372036854775807::"
VACUUM, ANA, BEN = 41, 38, 39
"""Ids of the locks: the vacuum's own, and those of two readers."""
INVALID: Final = b"this is not an Avro event"


def run(environment: DemoEnvironment, report: DemoReport, publisher: Publisher) -> None:
    """Run the scenario.

    Raises:
        TidegateError: a check failed, or an outcome did not come.
    """
    report.heading("Hive: clean up after a vacuum (a compaction) while two readers are at work")
    location = environment.warehouse.resolve() / "table_txn_001"
    table = AcidTable(location, {"id": "bigint", "name": "string"})
    snapshot = ValidWriteIds.parse(SNAPSHOT)
    with report.step("Insert three times, then vacuum (real ORC files)"):
        inserted = [
            table.insert(n, [(n * 10 + i, f"row {i}") for i in range(5)]) for n in (1, 2, 3)
        ]
        made = table.compact_minor(1, 3, snapshot)
    rows = table.read(snapshot)
    report.detail(f"{', '.join([*inserted, *made])}; {len(rows)} rows; Ana and Ben read the table")

    release = partial(publisher.lock_released, table=TABLE, location=str(location))
    with report.step("Publish the vacuum with three locks to wait for: its own, Ana's and Ben's"):
        _publish_vacuum(publisher, location, made)
        release(lock_id=VACUUM)
        environment.wait_until_idle()
    _check_nothing_removed(report, location, [*inserted, *made])
    _check_waiting_for(environment, report, "ana@notebook-3", "ben@reports-1")
    with report.step("Publish the release of Ana's lock, then a message that is not an event"):
        release(lock_id=ANA)
        _publish_invalid_message(environment)
        environment.wait_until_idle()
    _check_nothing_removed(report, location, [*inserted, *made])
    dead_letters = environment.monitor.dead_letters()
    report.check(
        "the invalid message is unchanged in the dead letters",
        met=[each.value for each in dead_letters] == [INVALID],
        found=dead_letters,
    )
    with report.step("Kill all five services (SIGKILL) and start them again"):
        environment.kill_services()
        environment.start_services()
        environment.wait_until_idle()
    _check_nothing_removed(report, location, [*inserted, *made])
    _check_waiting_for(environment, report, "ben@reports-1")
    with report.step("Publish the release of Ben's lock, the last one"):
        release(lock_id=BEN)
        done = environment.wait_for("DirectoriesCleaned", lambda: _cleaned(environment))
    report.detail(
        f"removed: {', '.join(done.directories)} ({done.files} files, {done.bytes:,} bytes)"
    )
    report.check(
        "exactly the obsolete directories were removed", met=_names(location) == sorted(made)
    )
    report.check("the table has the same rows as before", met=table.read(snapshot) == rows)


def _publish_vacuum(publisher: Publisher, location: Path, made: tuple[str, ...]) -> None:
    readers = {ANA: "ana@notebook-3", BEN: "ben@reports-1"}
    publisher.vacuum_finished(
        table=TABLE,
        location=str(location),
        kind=VacuumKind.MINOR,
        directories=made,
        min_write_id=1,
        max_write_id=3,
        valid_write_ids=SNAPSHOT,
        own_lock_id=VACUUM,
        locks=[
            LockHold(lock_id=VACUUM, lock_type=LockType.SHARED_WRITE, owner="hive@compactor"),
            *(
                LockHold(lock_id=lock, lock_type=LockType.SHARED_READ, owner=owner)
                for lock, owner in readers.items()
            ),
        ],
    )


def _check_waiting_for(environment: DemoEnvironment, report: DemoReport, *owners: str) -> None:
    shown = environment.run_command("waiting")
    waited = [each.rpartition(" of ")[2] for each in shown.splitlines() if "waits for" in each]
    report.check("that is who is waited for", met=sorted(waited) == sorted(owners), found=waited)


def _publish_invalid_message(environment: DemoEnvironment) -> None:
    producer = ConfirmedProducer({"bootstrap.servers": environment.servers})
    producer.send([Message(f"{environment.prefix}.locks", TABLE.encode(), INVALID)])
    producer.close()


def _cleaned(environment: DemoEnvironment) -> DirectoriesCleaned | None:
    done = [e for e in environment.monitor.outcomes() if isinstance(e, DirectoriesCleaned)]
    return done[0] if done else None


def _check_nothing_removed(report: DemoReport, location: Path, expected: list[str]) -> None:
    names = _names(location)
    report.check("nothing was removed yet", met=names == sorted(expected), found=names)


def _names(location: Path) -> list[str]:
    return sorted(path.name for path in location.iterdir())
