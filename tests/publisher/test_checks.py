"""What contradicts itself is refused where it is published, not after the last reader has gone."""

from __future__ import annotations

from typing import Any

import pytest

from support.deployment_events import vacuum
from support.samples import NOON
from tidegate.cleaning.plan import partition_path, plan_cleaning
from tidegate.coordinator.readers import command_for
from tidegate.errors import InvalidEventError
from tidegate.events import CleaningReleased, VacuumFinished, WritesAborted
from tidegate.ops.contract import example_of
from tidegate.publisher import Publisher
from tidegate.publisher.checks import check_publishable
from tidegate.tables.refusal import Refused

SOON = {"delivery.timeout.ms": 200}
LOCKS = ({"lock_id": 5, "transaction_id": 21}, {"lock_id": 5, "partition": "day=1"})
CONTRADICTIONS = [
    pytest.param({"kind": "major"}, "delta", id="a major one made a delta"),
    pytest.param({"max_write_id": 2}, None, id="the directory exceeds the range"),
    pytest.param({"max_write_id": 9}, None, id="the range exceeds the directory"),
    pytest.param(
        {"valid_write_ids": "sales.orders:2:9223372036854775807::"},
        "high-water mark",
        id="the range exceeds the snapshot",
    ),
    pytest.param(
        {"valid_write_ids": "sales.customers:3:9223372036854775807::"},
        "of the table .*customers",
        id="the snapshot is another table's",
    ),
    pytest.param({"valid_write_ids": "no snapshot"}, "not a list of valid ids", id="no snapshot"),
    pytest.param({"directories": ("part-0001",)}, "part-0001", id="no name of Hive's"),
    pytest.param(
        {"directories": tuple(f"delta_000000{n}_000000{n}" for n in (1, 2, 3))},
        None,
        id="more directories than a vacuum makes",
    ),
    pytest.param({"partition": "../customers"}, "not a path below the table", id="a way out"),
    pytest.param({"partition": "/day=1"}, "not a path below the table", id="an absolute partition"),
]
OF_LOCKS_AND_SNAPSHOT = [
    pytest.param(
        {"valid_write_ids": "sales.orders:3:9223372036854775807:2:"},
        "says that none is open",
        id="an open write id while none is open",
    ),
    pytest.param(
        {"own_lock_id": 5, "own_transaction_id": 22, "locks": LOCKS},
        "lock 5 is of one transaction, not of 22 and of 21",
        id="its own lock is another transaction's",
    ),
    pytest.param(
        {"own_lock_id": 5, "locks": (*LOCKS, {"lock_id": 5, "transaction_id": 23})},
        "lock 5 is of one transaction, not of 21 and of 23",
        id="a lock of two transactions",
    ),
]
"""Services process these: the cleaner judges by the directories, and reads no lock."""


def vacuum_with(**fields: Any) -> VacuumFinished:  # noqa: ANN401 - any field
    given = vacuum(7).model_dump(exclude={"event_id"})
    return VacuumFinished.model_validate(given | fields)


@pytest.mark.parametrize(("fields", "reason"), [*CONTRADICTIONS, *OF_LOCKS_AND_SNAPSHOT])
def test_a_vacuum_that_contradicts_itself_is_refused_before_it_is_sent(
    fields: dict[str, Any], reason: str | None
) -> None:
    with (
        Publisher("127.0.0.1:9", source="test", config=SOON) as publisher,
        pytest.raises(InvalidEventError, match=reason),
    ):
        publisher.publish(vacuum_with(**fields))


def refuse(command: CleaningReleased) -> None:
    """What the cleaner checks before it looks at what the directory holds."""
    partition_path(command.partition)
    plan_cleaning([], command)


@pytest.mark.parametrize(("fields", "reason"), CONTRADICTIONS)
def test_the_cleaner_would_have_refused_it_too(fields: dict[str, Any], reason: str) -> None:
    """The publisher refuses nothing that would have been cleaned."""
    command = command_for(vacuum_with(**fields), NOON)
    with pytest.raises(Refused, match=None if "partition" in fields else reason):
        refuse(command)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"partition": "day=1/hour=2"},
        {
            "directories": (
                "delta_0000001_0000003_v0000012",
                "delete_delta_0000001_0000003_v0000012",
            )
        },
        {"kind": "major", "directories": ("base_0000003",)},
        {"valid_write_ids": "orders:7:9223372036854775807::"},
    ],
)
def test_a_vacuum_that_may_be_is_sent(fields: dict[str, Any]) -> None:
    check_publishable(vacuum_with(**fields))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("sales.orders:3", "not a list of valid ids: .* such as sales.visits:3:922337203685477580"),
        ("sales.orders:3:x::", "such as sales.visits:3:"),
        ("sales.customers:3:9223372036854775807::", "of the table 'sales.customers', not of"),
    ],
)
def test_a_snapshot_that_is_refused_is_called_by_its_field(ids: str, message: str) -> None:
    with pytest.raises(
        InvalidEventError, match=f"invalid VacuumFinished: valid_write_ids: .*{message}"
    ):
        check_publishable(vacuum_with(valid_write_ids=ids))


def test_aborted_writes_with_a_malformed_snapshot_are_not_sent() -> None:
    aborted = WritesAborted.model_validate(example_of("WritesAborted"))
    check_publishable(aborted)

    with pytest.raises(InvalidEventError, match="invalid WritesAborted: valid_write_ids: not a li"):
        check_publishable(aborted.model_copy(update={"valid_write_ids": "no snapshot"}))


def test_the_example_of_a_vacuum_is_publishable() -> None:
    check_publishable(VacuumFinished.model_validate(example_of("VacuumFinished")))
