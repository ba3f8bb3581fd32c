"""Dead letters as people and scripts see them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli.tables import show_table

if TYPE_CHECKING:
    from tidegate.deadletters import Listed


def row_of(listed: Listed) -> dict[str, Any]:
    """A letter as people and scripts see it in a list."""
    letter = listed.letter
    return {
        "id": letter.letter_id,
        "at": letter.at.isoformat(timespec="milliseconds"),
        "service": letter.service,
        "origin": f"{letter.origin.topic}/{letter.origin.number}/{letter.origin_offset}",
        "table": letter.table,
        "state": listed.state,
        "reason": letter.error,
    }


def text_of(content: bytes | None) -> str | None:
    """Bytes as text, those that are none as escapes."""
    return None if content is None else content.decode(errors="backslashreplace")


def tell_rows(
    rows: list[dict[str, Any]], *, as_json: bool, doing: tuple[str, bool] | None = None
) -> None:
    """Show letters; `doing` is what is done to them, and whether it was or only would be."""
    done, executed = doing or ("", False)
    if as_json:
        typer.echo(json.dumps({"letters": rows} | ({"executed": executed} if doing else {})))
        return
    show_table(rows)
    if doing and executed:
        typer.echo(f"{len(rows)} dead letters are {done}: done")
    elif doing:
        typer.echo(f"{len(rows)} dead letters would be {done}; add --execute to do it")
    elif not rows:
        typer.echo("no dead letter waits for a decision")
