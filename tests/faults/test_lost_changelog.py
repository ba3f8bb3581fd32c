"""The coordinator's changelog is lost on a real broker, and people follow the runbook."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from support.acid import INSERTS, MINOR_3, NOON, TABLE, build
from support.blocks import Reader, blocks_of, section
from support.deployment import Deployment, end, exit_code
from support.hudi_tables import at, data_files, four_commits
from support.kafka import delete_first_records
from support.samples import release
from support.waiting import wait_for
from tidegate.events import (
    CleaningHeld,
    CleaningHoldRemoved,
    DirectoriesCleaned,
    Event,
    RestoreCompleted,
    SavepointCreated,
    TaskEnd,
    TaskEnded,
    VacuumFinished,
)
from tidegate.events.topics import CHANGELOG
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.full]

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
CLEANED, WAITING, HELD = (TABLE, "hive.default.waiting", "hive.default.held")
ORDERS = "lake.shop.orders"
AFTER_MINOR = {**dict.fromkeys(INSERTS, 9), MINOR_3: 27}
WHO: dict[str, Any] = {"requested_by": "mara", "reason": "an audit"}
KAFKA_TOPICS = """\
#!{python}
# a stand-in for Kafka's own command, which is in none of the jars of these tests
import sys
from confluent_kafka.admin import AdminClient
_, server, address, delete, name, topic = sys.argv
assert (server, delete, name) == ("--bootstrap-server", "--delete", "--topic")
admin = AdminClient({{"bootstrap.servers": address}})
[gone] = admin.delete_topics([topic]).values()
gone.result(60)
"""


def first_records_are_deleted(deployment: Deployment, topic: str) -> str:
    delete_first_records(deployment.servers, topic, 3)
    return r"begins at offset 3: its first records were deleted"


def topic_is_created_again(deployment: Deployment, topic: str) -> str:
    admin = AdminClient({**deployment.connection, "log_level": 0})
    [gone] = admin.delete_topics([topic]).values()
    gone.result(60)
    wait_for("the end of the topic", lambda: topic not in admin.list_topics(timeout=60).topics)
    create_topics(deployment.connection, deployment.topics)
    return r"was deleted and created again|has lost what was decided in between"


class Place:
    """A deployment with its tables, and a person who operates it."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment, self.publisher = deployment, deployment.publisher()
        self.tables = {name: folder / name.rpartition(".")[2] for name in (CLEANED, WAITING, HELD)}
        for path in self.tables.values():
            build(path, AFTER_MINOR)
        self.orders = four_commits(folder / "orders", 9)
        tools = folder / "bin"
        tools.mkdir()
        (tools / "kafka-topics").write_text(KAFKA_TOPICS.format(python=sys.executable), "utf-8")
        (tools / "kafka-topics").chmod(0o755)
        folders = [str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]
        env = {key: value for key, value in os.environ.items() if key != "KAFKA_BOOTSTRAP_SERVERS"}
        env |= {"PATH": os.pathsep.join(folders)}
        env["TIDEGATE_CONFIG"] = str(deployment.settings_file("people", {}))
        own = CHANGELOG.name(deployment.prefix)
        typed = {"localhost:9092": deployment.servers, CHANGELOG.name(): own}
        self.person = Reader(folder / "bin", env, typed)

    def outcomes(self, kind: type[Event], table: str) -> list[Event]:
        found = self.deployment.events("outcomes")
        return [it for it in found if isinstance(it, kind) and it.table == table]

    def wait_for(self, kind: type[Event], table: str, count: int = 1) -> None:
        what = f"{count} {kind.__name__} of {table}"
        wait_for(what, lambda: len(self.outcomes(kind, table)) >= count)

    def vacuum(self, table: str, *released: int) -> None:
        about = {"table": table, "location": str(self.tables[table]), "source": "compactor"}
        made = {"kind": "minor", "directories": (MINOR_3,), "occurred_at": NOON}
        ids: dict[str, object] = {"min_write_id": 1, "max_write_id": 3, "own_lock_id": 1}
        ids["valid_write_ids"] = f"{table[5:]}:3:9223372036854775807::"
        locks = {"locks": ({"lock_id": 1}, {"lock_id": 2})}
        self.publisher.publish(VacuumFinished.model_validate(about | made | ids | locks))
        self.release(table, *released)

    def release(self, table: str, *locks: int) -> None:
        self.publisher.publish(*(release(lock, table) for lock in locks))

    def directories(self, table: str) -> list[str]:
        return sorted(path.name for path in self.tables[table].iterdir() if path.name[0] != ".")

    def workers_have_no_lag(self) -> bool:
        shown = json.loads(self.person.run("tidegate status --json || true").splitlines()[-1])
        services: list[dict[str, Any]] = shown["services"]
        return all(it["lag"] == 0 for it in services if it["service"] != "coordinator")


@pytest.mark.parametrize("lose", [first_records_are_deleted, topic_is_created_again])
def test_tables_go_on_after_the_runbook_and_nothing_is_done_twice(
    lose: Callable[[Deployment, str], str], deployment: Deployment, tmp_path: Path
) -> None:
    place = Place(deployment, tmp_path)
    publisher: Publisher = place.publisher
    coordinator = deployment.run("coordinator")
    for worker in ("cleaner", "savepoint-writer", "restorer"):
        deployment.run(worker)
    about: dict[str, Any] = {"table": ORDERS, "location": place.orders.location}
    publisher.request_savepoint(**about, instant=at(2), requested_by="mara")
    publisher.hold_cleaning(table=HELD, **WHO)
    place.wait_for(CleaningHeld, HELD)
    place.vacuum(CLEANED, 1, 2)
    place.vacuum(WAITING, 1)
    place.vacuum(HELD, 1, 2)
    place.wait_for(SavepointCreated, ORDERS)
    publisher.request_restore(**about, savepoint=at(2), seen_up_to="9" * 17, **WHO)
    place.wait_for(RestoreCompleted, ORDERS)
    place.wait_for(DirectoriesCleaned, CLEANED)
    assert place.directories(CLEANED) == [MINOR_3]
    place.orders.commit(at(9), at(2))
    files = data_files(place.orders.path)

    end(coordinator)
    why = lose(deployment, CHANGELOG.name(deployment.prefix))
    refused = deployment.run("coordinator", "refused")
    assert exit_code(refused) != 0
    assert re.search(why, refused.log.read_text("utf-8"))
    wait_for("the workers", place.workers_have_no_lag)
    page = section(RUNBOOK.read_text("utf-8"), "The changelog is damaged")
    [remedy] = blocks_of(page.replace("\n   ", "\n"))  # of a list
    place.person.follow(f"```sh\n{remedy.text}```")
    deployment.run("coordinator", "again")

    place.release(WAITING, 2)
    place.wait_for(DirectoriesCleaned, WAITING)
    place.wait_for(DirectoriesCleaned, CLEANED, 2)  # it finds nothing to remove
    assert place.directories(WAITING) == place.directories(CLEANED) == [MINOR_3]
    assert place.directories(HELD) == sorted(AFTER_MINOR)
    publisher.release_hold(table=HELD, **WHO)
    place.wait_for(CleaningHoldRemoved, HELD)
    place.wait_for(DirectoriesCleaned, HELD)
    assert place.directories(HELD) == [MINOR_3]
    publisher.request_savepoint(**about, instant=at(9), requested_by="mara")
    place.wait_for(SavepointCreated, ORDERS, 2)
    assert data_files(place.orders.path) == files, "the restore was carried out again"
    assert len(place.outcomes(RestoreCompleted, ORDERS)) == 1
    ends = [it for it in place.outcomes(TaskEnded, ORDERS) if isinstance(it, TaskEnded)]
    assert max(it.number for it in ends if it.end is TaskEnd.ANSWERED) > 2
    assert deployment.records("dead-letters") == []
