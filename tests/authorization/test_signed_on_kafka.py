"""A signed request through a real broker, from the command line to its outcome."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.deployment import Deployment
from support.samples import work_off
from support.signing import Obeying, entry, key_file, settings
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.events import Answer
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Partition
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import authorizer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
RESTORE = (
    *("publish", "restore", "-t", "lake.sales.orders", "-l", "/lake/orders"),
    *("--savepoint", "20261121041551845", "--reason", "a bad load", "--requested-by", "mallory"),
    "--new",
)


def test_a_signed_request_from_the_command_line_is_carried_out_and_an_unsigned_one_is_not(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as place:
        file = str(place.settings_file("cli", {}))
        for more in (["--sign-with", str(key_file(tmp_path))], []):
            done = CliRunner().invoke(app, [*RESTORE, *more, "-c", file])
            assert done.exit_code == 0, done.output

        bus, obeying = KafkaBus(place.connection), Obeying()
        trusting = authorizer(settings(entry()))
        loop = ExecutorLoop(obeying, bus, topic_prefix, authorization=trusting)

        def two_outcomes() -> list[Answer] | None:
            loop.step(0.1)
            log = bus.log(Partition(f"{topic_prefix}.outcomes", 0))
            found = [Wire().deserialize(record.key, record.value, record.headers) for record in log]
            answers = [event for event in found if isinstance(event, Answer)]
            return answers if len(answers) == 2 else None

        signed, unsigned = wait_for("two outcomes", two_outcomes)
        work_off(loop)
        loop.close()
        bus.close()

    assert (signed.signed_by, signed.requested_by, signed.why) == ("ana", "mallory", "a bad load")
    assert getattr(unsigned, "reason", None) == "not-signed"
    assert len(obeying.obeyed) == 1
