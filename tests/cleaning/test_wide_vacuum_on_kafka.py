"""A vacuum that waits for eighty thousand locks: from its publisher to the removed directories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from support.acid import NOON, build
from support.replays import Place
from support.waiting import wait_for
from tidegate.errors import MessageTooLargeError
from tidegate.events import DirectoriesCleaned, LockReleased
from tidegate.events.topics import CHANGELOG, DEAD_LETTERS, VACUUMS
from tidegate.ops.topics import create_topics
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
LOCKS: Final = 80_000
PRODUCT: Final = "delta_0000001_0000002"
INPUTS: Final = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")


@pytest.fixture
def place(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    made = Place(tmp_path, bootstrap_servers, topic_prefix)
    build(made.lake / "visits", dict.fromkeys((PRODUCT, *INPUTS), 9))
    settings = made.settings("")
    create_topics(settings.connection(), settings.topics)
    return made


def lock(number: int, owner: str) -> dict[str, Any]:
    return {
        "lock_id": 40_000_000 + 47 * number,
        "transaction_id": 90_000_000 + 101 * number,
        "partition": f"day=2026-11-{number % 30:02}",
        "lock_type": "shared_read",
        "owner": owner,
    }


def vacuum(locks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": "minor",
        "directories": [PRODUCT],
        "min_write_id": 1,
        "max_write_id": 2,
        "valid_write_ids": "shop.visits:2:9223372036854775807::",
        "own_lock_id": locks[0]["lock_id"],
        "locks": locks,
    }


def sizes(place: Place, topic: str) -> list[int]:
    bus = KafkaBus(place.settings("").connection())
    try:
        return [len(record.value or b"") for record in bus.read(bus.spans(topic))]
    finally:
        bus.close()


def test_eighty_thousand_locks_end_and_the_directories_go(place: Place) -> None:
    subject = place.subject("visits")
    held = [lock(n, f"user{n % 500}@worker-{n % 50}.cluster.example.com") for n in range(LOCKS)]
    with place.publisher() as publisher:
        publisher.vacuum_finished(**subject, **vacuum(held))
        ends = [
            LockReleased(**subject, occurred_at=NOON, source="test", lock_id=n)
            for n in (hold["lock_id"] for hold in reversed(held))  # the worst order: youngest first
        ]
        for start in range(0, LOCKS - 1, 10_000):
            publisher.publish(*ends[start : min(start + 10_000, LOCKS - 1)])
        with place.running("coordinator", "cleaner", rules=""):
            place.wait_until_idle("coordinator")
            assert all((place.lake / "visits" / name).is_dir() for name in INPUTS)
            publisher.publish(ends[-1])
            wait_for("the cleaning", lambda: _cleaned(place), seconds=120)

    assert not any((place.lake / "visits" / name).exists() for name in INPUTS)
    assert sizes(place, DEAD_LETTERS.name(place.prefix)) == []
    [largest] = sizes(place, VACUUMS.name(place.prefix))
    assert largest > 2 * 2**20
    assert max(sizes(place, CHANGELOG.name(place.prefix))) < 1_000_000


def _cleaned(place: Place) -> bool:
    return any(isinstance(outcome, DirectoriesCleaned) for outcome in place.audience.outcomes())


def test_what_no_topic_takes_is_refused_with_the_way_out(place: Place) -> None:
    chance = random.Random(1)  # noqa: S311 - the same bytes in each run
    held = [lock(n, chance.randbytes(40).hex()) for n in range(LOCKS)]
    with (
        place.publisher() as publisher,
        pytest.raises(MessageTooLargeError, match="open_transactions: they end with it"),
    ):
        publisher.vacuum_finished(**place.subject("visits"), **vacuum(held))
