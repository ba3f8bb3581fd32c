"""`tidegate skip`: move a stopped service past one offset that it can't process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import AsJson, ConfigFile, Execute, Reason, RequestedBy, person
from tidegate.cli.output import write, write_json
from tidegate.ops.dead_letters.skipping import carry_out_skip, plan_skip, unread


def skip(
    service: Annotated[str, typer.Option(help="The service; stop it first.")],
    topic: Annotated[str, typer.Option(help="Its input topic, e.g. tasks.")],
    partition: Annotated[int, typer.Option(min=0, help="The partition.")],
    offset: Annotated[int, typer.Option(min=0, help="The offset that it reads next.")],
    reason: Reason,
    requested_by: RequestedBy = None,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Skip one offset, with an audit event and a dead letter that names its location.

    The record is NOT processed: whatever it asked for will not happen.

    Examples:
        tidegate skip --service restorer --topic tasks --partition 0 --offset 7
            --reason 'no worker can read it'
    """
    settings = reachable(config)
    where = plan_skip(settings, service, topic, partition, offset)
    dead_letter_id = None
    if execute:
        dead_letter_id = carry_out_skip(
            settings,
            service=service,
            skipped=unread(where, offset),
            by=person(requested_by),
            reason=reason,
            at=datetime.now(UTC),
        )
    if as_json:
        write_json({"executed": execute, "dead_letter_id": dead_letter_id})
        return
    place = f"{where.topic}/{partition}/{offset}"
    if execute:
        write(f"{service} goes on after {place}; dead letter {dead_letter_id}")
    else:
        write(f"{service} would go on after {place}; add --execute to do it")
