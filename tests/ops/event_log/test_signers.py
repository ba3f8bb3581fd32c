"""A request in the log names whose key signed it, or says that no signature proves the name."""

from __future__ import annotations

from typing import Any

import pytest

from support.samples import memory_bus, message
from support.signing import ANA, EVE, entry, restore, settings, signed
from tidegate.events import RestoreApproved
from tidegate.ops.event_log import EventLog, LoggedEvent
from tidegate.ops.summary import line_of
from tidegate.publisher import Message
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.service.settings import Settings

APPROVAL = RestoreApproved(
    event_id="approval-1",
    table=restore().table,
    location=restore().location,
    occurred_at=restore().occurred_at,
    source="cli",
    request="r-1",
    plan_id="p1",
    approved_by="mallory",
    reason="checked",
)


class Cluster(KafkaMetadata):
    def __init__(self) -> None:
        pass

    def cluster_id(self) -> str:
        return "memory"


def logged(deployment: Settings, sent: Message) -> LoggedEvent:
    bus = memory_bus()
    bus.send([sent])
    [record] = bus.records("tidegate.requests")
    found = EventLog(deployment, {}, Cluster()).logged(record)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("deployment", "sent", "named"),
    [
        (settings(entry()), signed(restore(requested_by="mallory")), "ana (as mallory)"),
        (settings(entry()), signed(restore(requested_by="ana")), "ana"),
        (settings(entry()), message(restore(requested_by="mallory")), "mallory (unsigned)"),
        (
            settings(entry()),
            signed(restore(requested_by="ana"), EVE),
            "ana (signature not verified)",
        ),
        (
            settings(entry(ANA, roles=["approver"])),
            signed(restore(requested_by="mallory")),
            "ana (as mallory)",
        ),
        (
            settings(required=False),
            signed(restore(requested_by="mallory")),
            "mallory (signature not checked)",
        ),
    ],
    ids=["signed as another", "signed", "unsigned", "a stranger", "wrong role", "without keys"],
)
def test_a_request_is_shown_with_what_its_signature_says(
    deployment: Settings, sent: Message, named: str
) -> None:
    assert line_of(logged(deployment, sent)).endswith(f"requested by {named}")


@pytest.mark.parametrize(
    ("sign", "named"),
    [(lambda it: signed(it, EVE), "eve (as mallory)"), (message, "mallory (unsigned)")],
    ids=["signed", "unsigned"],
)
def test_an_approval_is_shown_with_what_its_signature_says(sign: Any, named: str) -> None:  # noqa: ANN401
    deployment = settings(entry(EVE, "eve", roles=["approver"]))

    found = logged(deployment, sign(APPROVAL))

    assert line_of(found).endswith(f"approved by {named}")
    assert found.row["signed_by"] == (None if "unsigned" in named else "eve")
