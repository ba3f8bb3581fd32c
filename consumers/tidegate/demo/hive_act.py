"""Second act: a vacuum on a Hive ACID table waits for its last reader."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from tidegate.demo.acid_orc import AcidTable
from tidegate.demo.stage import Stage
from tidegate.demo.story import Story
from tidegate.events import DirectoriesCleaned, LockHold, LockType, VacuumKind
from tidegate.hive import ValidWriteIds
from tidegate.publisher import ConfirmedProducer, Message, Publisher

TABLE: Final = "hive.default.table_txn_001"
SNAPSHOT: Final = "default.table_txn_001:3:9223372036854775807::"
VACUUM, ANA, BEN = 41, 38, 39
"""Three locks: the vacuum's own and two readers'."""
POISON: Final = b"this was never an Avro event"


def play(stage: Stage, story: Story, publisher: Publisher) -> None:
    """Play the act."""
    story.act("Act 2: a vacuum on a Hive ACID table, and two readers")
    location = stage.warehouse.resolve() / "table_txn_001"
    table = AcidTable(location, {"id": "bigint", "name": "string"})
    snapshot = ValidWriteIds.parse(SNAPSHOT)
    with story.step("Upstream inserts three times and vacuums (real ORC files)"):
        inserted = [
            table.insert(n, [(n * 10 + i, f"row {i}") for i in range(5)]) for n in (1, 2, 3)
        ]
        made = table.compact_minor(1, 3, snapshot)
    rows = table.read(snapshot)
    story.say(f"{', '.join([*inserted, *made])}; {len(rows)} rows; Ana and Ben are reading")

    release = partial(publisher.lock_released, table=TABLE, location=str(location))
    with story.step("The vacuum is published with three holds: its own lock, Ana's and Ben's"):
        _publish_vacuum(publisher, location, made)
        release(lock_id=VACUUM)
        stage.wait_until_idle()
    _check_all_there(story, location, [*inserted, *made])
    with story.step("Ana's lock is released, and a poison message lies before Ben's release"):
        release(lock_id=ANA)
        _publish_poison(stage)
        stage.wait_until_idle()
    _check_all_there(story, location, [*inserted, *made])
    letters = stage.audience.dead_letters()
    story.check(
        "the poison message is in the dead letters, whole",
        holds=[each.value for each in letters] == [POISON],
        otherwise=letters,
    )
    with story.step("All five services are killed (SIGKILL) and started again"):
        stage.kill_services()
        stage.start_services()
        stage.wait_until_idle()
    _check_all_there(story, location, [*inserted, *made])
    with story.step("Ben's lock is released: the tide is out"):
        release(lock_id=BEN)
        done = stage.wait_for("DirectoriesCleaned", lambda: _cleaned(stage))
    story.say(f"removed: {', '.join(done.directories)} ({done.files} files, {done.bytes:,} bytes)")
    story.check("exactly the obsolete directories are gone", holds=_names(location) == sorted(made))
    story.check("the table's rows are the same", holds=table.read(snapshot) == rows)


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


def _publish_poison(stage: Stage) -> None:
    producer = ConfirmedProducer({"bootstrap.servers": stage.servers})
    producer.send([Message(f"{stage.prefix}.locks", TABLE.encode(), POISON)])
    producer.close()


def _cleaned(stage: Stage) -> DirectoriesCleaned | None:
    done = [e for e in stage.audience.outcomes() if isinstance(e, DirectoriesCleaned)]
    return done[0] if done else None


def _check_all_there(story: Story, location: Path, expected: list[str]) -> None:
    there = _names(location)
    story.check("nothing is removed", holds=there == sorted(expected), otherwise=there)


def _names(location: Path) -> list[str]:
    return sorted(path.name for path in location.iterdir())
