"""What savepoints' commands and outcomes say in one line."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from tidegate.events.topics import EVENT_TYPES
from tidegate.ops.summary import content_of


@pytest.mark.parametrize(
    ("kind", "changed", "line"),
    [
        ("SavepointRequested", {}, "on 20261121041551845, for hourly, daily"),
        ("SavepointRequested", {"instant": None}, "on the newest commit, for hourly, daily"),
        ("SavepointsCheckRequested", {}, "of the table"),
        (
            "SavepointsCheckRequested",
            {"condemned": "20261121041551845"},
            "of the table, for condemned 20261121041551845",
        ),
        (
            "SavepointsChecked",
            {},
            ("31 savepoints, 1 made, 1 removed; no rule owns 1 savepoint; they pin 850.9 KiB"),
        ),
        ("SavepointCreated", {}, "20261121041551845: 3 files in 3 partitions, for hourly, daily"),
        ("SavepointRemovalRequested", {}, "of 20261120040011845: the policy's tier daily keeps 1"),
        (
            "SavepointRemoved",
            {},
            "20261120040011845 of policy:sales, which protected 3 files; 1 savepoint left",
        ),
        ("SavepointRemoved", {"already_gone": True}, "20261120040011845: was gone already"),
        (
            "SavepointRemovalRejected",
            {},
            "20261120040011845: restore-pending: a restore of this table has not completed yet",
        ),
    ],
)
def test_an_event_says_what_it_is_about(kind: str, changed: dict[str, object], line: str) -> None:
    text = files("tidegate.events").joinpath("examples", f"{kind}.json").read_text("utf-8")
    event = EVENT_TYPES[kind].model_validate(json.loads(text) | changed)

    assert content_of(event) == line
