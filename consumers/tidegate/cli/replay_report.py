"""The output of `tidegate replay`: a plan as JSON for scripts, and as sentences for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidegate.ops.replay import EventReplay, GroupReplay, OffsetReset

_LISTED: Final = 5
_COORDINATOR: Final = "harmless, because the coordinator skips what it has applied to them"
_EXECUTOR: Final = "harmless, because a command that has its outcome is not carried out again"


def group_as_json(plan: GroupReplay) -> dict[str, Any]:
    """A group's plan as JSON values."""
    fields: dict[str, Any] = {
        "restores": plan.restores,
        "changes": [_change(plan, reset) for reset in plan.resets],
    }
    if plan.tables is not None:
        fields["tables"] = [
            {"table": table, "partition": number, "again": _again(plan, table)}
            for table, number in sorted(plan.tables.items())
        ]
        others = {"tables": len(_other_tables(plan)), "again": _of_other_tables(plan)}
        fields["others"] = others
    return fields


def _change(plan: GroupReplay, reset: OffsetReset) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group": plan.group,
        "topic": reset.partition.topic,
        "partition": reset.partition.number,
        "from_offset": reset.from_offset,
        "to_offset": reset.to_offset,
        "again": reset.again,
    }
    if reset.counts is not None:
        fields["of_tables"] = sum(reset.counts.by_table.values())
        fields["of_others"] = reset.counts.of_other_tables
    if any(reset.fault for reset in plan.resets):
        fields["repairs"] = reset.fault
    return fields


def group_sentences(plan: GroupReplay, *, executed: bool) -> Iterator[str]:
    """A group's plan in sentences, below the table of its changes."""
    for table, number in sorted((plan.tables or {}).items()):
        records = _count(_again(plan, table), "record")
        yield f"{table} is on partition {number}: {records} to read again"
    if others := _of_other_tables(plan):
        tables = _count(len(_other_tables(plan)), "other table")
        yield (
            f"{_count(others, 'record')} of {tables} on the same partition would be read again too:"
            f" {_COORDINATOR if _is_of_coordinator(plan) else _EXECUTOR}"
        )
    if plan.tables is not None:
        for reset in plan.resets:
            if reset.is_for_all and reset.applied is not None:
                yield (
                    f"{reset.partition.topic}[{reset.partition.number}]: {reset.fault}, so all"
                    " tables are reset there, not only the selected ones"
                )
    yield from _restores(plan.restores)
    if plan.resets:
        where = _count(len(plan.resets), "partition")
        sentence = f"{_count(plan.records, 'record')} would be read again in {where}"
        yield _sentence(sentence, executed=executed)
    elif plan.tables is not None:
        yield f"nothing to change: group {plan.group} would read nothing of these tables again"
    elif plan.has_started:
        yield f"nothing to change: group {plan.group} is already at or before that offset"
    else:
        yield f"nothing to change: group {plan.group} has not started, it reads from the beginning"


def _again(plan: GroupReplay, table: str) -> int:
    return sum(reset.counts.by_table.get(table, 0) for reset in plan.resets if reset.counts)


def _of_other_tables(plan: GroupReplay) -> int:
    return sum(reset.counts.of_other_tables for reset in plan.resets if reset.counts)


def _other_tables(plan: GroupReplay) -> set[str]:
    return {table for reset in plan.resets if reset.counts for table in reset.counts.other_tables}


def _is_of_coordinator(plan: GroupReplay) -> bool:
    return any(reset.applied is not None for reset in plan.resets)


def events_as_json(plan: EventReplay) -> dict[str, Any]:
    """A plan of events as JSON values."""
    return {
        "restores": plan.restores,
        "events": plan.events,
        "more": plan.events > len(plan.listed),
        "changes": [
            {
                "event": type(found.event).__name__,
                "table": found.event.table,
                "event_id": found.event.event_id,
                "from": found.origin,
            }
            for found in plan.listed
        ],
        "unreadable_records": plan.unreadable,
        "unreadable": [
            {
                "from": record.origin,
                "key": None
                if record.record.key is None
                else record.record.key.decode(errors="replace"),
                "reason": record.reason,
            }
            for record in plan.listed_unreadable
        ],
    }


def event_sentences(plan: EventReplay, *, executed: bool) -> Iterator[str]:
    """A plan of events in sentences, below the table of its changes."""
    if plan.events > len(plan.listed):
        yield f"only the first {len(plan.listed)} are listed; use --limit for more"
    for record in plan.listed_unreadable[:_LISTED]:
        yield f"{record.origin} can't be decoded: {record.reason}"
    if plan.unreadable > _LISTED:
        yield f"... and {plan.unreadable - _LISTED} more; --json lists up to --limit of them"
    if plan.unreadable:
        records = _count(plan.unreadable, "record")
        yield f"{records} can't be decoded and won't be published again"
    yield from _restores(plan.restores)
    if plan.events:
        sentence = f"{_count(plan.events, 'event')} would be published again"
        yield _sentence(sentence, executed=executed)


def _restores(count: int) -> Iterator[str]:
    if count:
        yield f"{_count(count, 'restore request')} included: --execute needs --with-restores"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _sentence(sentence: str, *, executed: bool) -> str:
    if executed:
        return sentence.replace("would be", "will be")
    return f"{sentence}; add --execute to do it"
