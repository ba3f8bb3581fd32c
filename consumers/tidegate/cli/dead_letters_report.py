"""The output of `tidegate dead-letters`, for people and scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tidegate.cli.output import write, write_error, write_json, write_json_lines, write_table

if TYPE_CHECKING:
    from tidegate.ops.dead_letters import ListedDeadLetter

_PAGE: Final = 500
"""Rows of a table: one of them all would have to be held to know its columns' widths."""


def row_of(listed: ListedDeadLetter) -> dict[str, Any]:
    """A dead letter as a row of a list."""
    dead_letter = listed.dead_letter
    return {
        "id": dead_letter.dead_letter_id,
        "at": dead_letter.at.isoformat(timespec="milliseconds"),
        "service": dead_letter.service,
        "origin": dead_letter.origin_location,
        "table": dead_letter.table,
        "state": listed.state,
        "reason": dead_letter.error,
    }


def text_of(content: bytes | None) -> str | None:
    """Bytes as text; those that are not UTF-8 as escapes."""
    return None if content is None else content.decode(errors="backslashreplace")


def show_listed(
    rows: Iterator[dict[str, Any]], has_more: Callable[[], bool], *, as_json: bool
) -> None:
    """Print dead letters as they come.

    Args:
        rows: A row each.
        has_more: Whether there are others that were not listed; asked once the rows are taken.
        as_json: Whether for scripts.
    """
    if as_json:
        write_json_lines(rows)
        if has_more():  # not on standard output: that is the list
            write_error("only the newest are listed; use --limit or a filter for others")
        return
    count = 0
    while page := list(islice(rows, _PAGE)):
        write_table(page)
        count += len(page)
    if has_more():
        write(f"only the newest {count} are listed; use --limit or a filter for others")
    elif not count:
        write("no open dead letter matches")


def show_resolved(
    rows: list[dict[str, Any]], count: int, done: str, *, executed: bool, as_json: bool
) -> None:
    """Print what was done to dead letters, or would be done.

    Args:
        rows: A row for each of the first of them.
        count: How many they are.
        done: What is done to them.
        executed: Whether it was carried out.
        as_json: Whether for scripts.
    """
    if as_json:
        more = {"more": count > len(rows), "count": count, "executed": executed}
        write_json({"dead_letters": rows} | more)
        return
    write_table(rows)
    shown = f" (the newest {len(rows)} are listed)" if count > len(rows) else ""
    if executed:
        write(f"{count} dead letters {done}{shown}")
    else:
        write(f"{count} dead letters would be {done}{shown}; add --execute to do it")
