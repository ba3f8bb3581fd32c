"""The output of `tidegate dead-letters`, for people and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.cli.output import write, write_json, write_table

if TYPE_CHECKING:
    from tidegate.ops.dead_letters import ListedDeadLetter


def row_of(listed: ListedDeadLetter) -> dict[str, Any]:
    """A dead letter as a row of a list."""
    dead_letter = listed.dead_letter
    return {
        "id": dead_letter.dead_letter_id,
        "at": dead_letter.at.isoformat(timespec="milliseconds"),
        "service": dead_letter.service,
        "origin": dead_letter.place,
        "table": dead_letter.table,
        "state": listed.state,
        "reason": dead_letter.error,
    }


def text_of(content: bytes | None) -> str | None:
    """Bytes as text; those that are not UTF-8 as escapes."""
    return None if content is None else content.decode(errors="backslashreplace")


def show_rows(
    rows: list[dict[str, Any]],
    *,
    as_json: bool,
    action: tuple[str, bool] | None = None,
    more: bool = False,
) -> None:
    """Print dead letters.

    Args:
        rows: A row each.
        as_json: Whether for scripts.
        action: What is done to them, and whether it was carried out.
        more: Whether there are others that were not listed.
    """
    done, executed = action or ("", False)
    if as_json:
        outcome = {"executed": executed} if action else {}
        write_json({"letters": rows, "more": more} | outcome)
        return
    write_table(rows)
    if action and executed:
        write(f"{len(rows)} dead letters {done}")
    elif action:
        write(f"{len(rows)} dead letters would be {done}; add --execute to do it")
    elif more:
        write(f"only the newest {len(rows)} are listed; use --limit or a filter for others")
    elif not rows:
        write("no open dead letter matches")
