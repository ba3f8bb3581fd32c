"""What waits too long is said once on a real broker, also when the gate is killed in between."""

from __future__ import annotations

import os
import signal

import pytest
from typer.testing import CliRunner

from support.deployment import Deployment
from support.deployment_events import vacuum
from support.samples import release
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.events import (
    Event,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)

pytestmark = [pytest.mark.kafka]

SETTINGS = '[[alarms]]\noverdue_after = "1s"\nunknown_after = "1s"'
STRANGER = "lake.sales.stranger"


def said(deployment: Deployment, kind: type[Event]) -> list[Event]:
    return [event for event in deployment.events("outcomes") if type(event) is kind]


def test_an_alarm_is_raised_once_and_its_end_too(deployment: Deployment) -> None:
    publisher = deployment.publisher()
    waits = vacuum(7, 8)
    publisher.publish(waits, release(7), release(1, STRANGER))
    gate = deployment.run("coordinator", "first")
    wait_for("VacuumOverdue", lambda: said(deployment, VacuumOverdue))
    wait_for("UnknownTableReleased", lambda: said(deployment, UnknownTableReleased))
    os.kill(gate.pid, signal.SIGKILL)

    deployment.run("coordinator", "second")
    publisher.publish(release(8), vacuum(2, table=STRANGER))
    [over] = wait_for("VacuumOverdueResolved", lambda: said(deployment, VacuumOverdueResolved))
    [known] = wait_for("UnknownTableResolved", lambda: said(deployment, UnknownTableResolved))
    late = wait_for("the alarm of another", lambda: said(deployment, VacuumOverdue)[1:])

    assert over.caused_by == waits.event_id
    assert known.table == STRANGER
    assert [event.table for event in late] == [STRANGER]
    assert len(said(deployment, UnknownTableReleased)) == 1

    file = deployment.settings_file("people", {})
    shown = CliRunner().invoke(app, ["status", "-c", str(file)]).stdout
    assert "1 vacuum waits:" in shown
    assert f"overdue vacuum of {STRANGER}: tidegate waiting --table {STRANGER}" in shown
    assert "lock 2" in shown
