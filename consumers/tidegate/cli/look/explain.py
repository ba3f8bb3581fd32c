"""`tidegate explain`: the history of a table or an event, and the next steps."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.look.status import show_vacuums
from tidegate.cli.options import abbreviated_ids, since_of
from tidegate.cli.output import write, write_json
from tidegate.errors.commands import command_line
from tidegate.ops.dead_letters.dead_letter import again_command
from tidegate.ops.explain import described_rule
from tidegate.ops.explain import explain as gather
from tidegate.ops.story import Story
from tidegate.ops.summary import line_of


def explain(
    subject: Annotated[str, typer.Argument(metavar="TABLE | EVENT_ID")],
    since: str | None = None,
    limit: Annotated[int, typer.Option(min=1)] = 200,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Show the history in order: events, commands, outcomes, waiting vacuums, next steps.

    For an event, show the chain from its first cause to its last outcome.

    Positional:
        subject: catalog.database.table, or an event's or dead letter's id, abbreviated if unique.

    Options:
        limit: Only the newest so many events.

    Examples:
        tidegate explain lake.sales.orders
        tidegate explain 1b9ce7ae --since 30d
    """
    [named] = abbreviated_ids((subject,))
    settings = reachable(config)
    story = gather(settings, named, since_of(since), limit)
    table = story.table_of_commits
    policy = described_rule(settings.savepoints, table) if table else None
    steps = [settings.security.suggested(step) for step in story.next_steps()]
    if as_json:
        write_json(
            {
                "subject": story.subject,
                "events": list(story.events),
                "left_out": story.left_out,
                "waiting_in_all": story.waiting_in_all,
                "waiting": story.waiting,
                "held": story.held,
                "dead_letters": story.dead_letters,
                "savepoint_policy": policy,
                "next": steps,
            }
        )
        return
    write(story.subject)
    if story.left_out:
        write(f"  ... {story.left_out} older events; see --limit")
    for event in story.shown():
        write(f"  {line_of(event, of_table=story.subject)}")
    if story.waiting:
        write("waiting:")
        show_vacuums(story.waiting, datetime.now(UTC), "  ")
        if (more := story.waiting_in_all - len(story.waiting)) > 0:
            write(f"  ... and {more} younger vacuums; see: {command_line('waiting')}")
    if story.dead_letters:
        write("dead letters:")
        _show_dead_letters(story)
    if policy is not None:
        write(f"savepoint policy: {policy}")
    write("next:")
    for step in steps:
        write(f"  {step}")


def _show_dead_letters(story: Story) -> None:
    for first, *others in story.open_dead_letters():
        more = f" (and {len(others)} more like it)" if others else ""
        write(f"  {first.dead_letter_id}  {first.state}  {first.service}: {first.error}{more}")
    for it in filter(attrgetter("is_skipped"), story.dead_letters):
        again = again_command(it.dead_letter_id)
        write(
            f"  {it.origin_location} was {it.error}; {it.service} never processed it;"
            f" to publish it again: {again}"
        )
    resolved = Counter(
        it.state for it in story.dead_letters if it.state != "open" and not it.is_skipped
    )
    for state, count in resolved.items():
        listed = command_line("dead-letters list", table=story.dead_letters[0].table, all=True)
        write(f"  {count} {state}; see: {listed}")
