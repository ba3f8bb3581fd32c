"""What `tidegate replay` says of its plans: for scripts, and in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidegate.replay import EventReplay, GroupReplay, Move

_NAMED: Final = 5
_DECIDER: Final = (
    "harmless: the memory says up to where each of them was applied, and that is passed over"
)
_EXECUTOR: Final = (
    "harmless: ids are derived from their causes, so what was done is known and not done again"
)


def group_told(plan: GroupReplay) -> dict[str, Any]:
    """A group's plan as JSON's values."""
    told: dict[str, Any] = {
        "restores": plan.restores,
        "changes": [_change(plan, each) for each in plan.moves],
    }
    if plan.tables is not None:
        told["tables"] = [
            {"table": table, "partition": number, "again": _again(plan, table)}
            for table, number in sorted(plan.tables.items())
        ]
        told["others"] = {"tables": len(_others(plan)), "again": _of_others(plan)}
    return told


def _change(plan: GroupReplay, move: Move) -> dict[str, Any]:
    told: dict[str, Any] = {
        "group": plan.group,
        "topic": move.partition.topic,
        "partition": move.partition.number,
        "from_offset": move.from_offset,
        "to_offset": move.to_offset,
        "again": move.again,
    }
    if move.share is not None:
        told["of_tables"] = sum(move.share.of_tables.values())
        told["of_others"] = move.share.of_others
    if any(each.fault for each in plan.moves):
        told["puts_right"] = move.fault
    return told


def group_sentences(plan: GroupReplay, *, executed: bool) -> Iterator[str]:
    """A group's plan in sentences, below the table of its changes."""
    for table, number in sorted((plan.tables or {}).items()):
        yield f"{table} lies on partition {number}: {_count(_again(plan, table), 'record')} of it"
    if others := _of_others(plan):
        yield (
            f"{_count(others, 'record')} of {_count(len(_others(plan)), 'other table')} on the same"
            f" partition: they come along; {_DECIDER if _remembers(plan) else _EXECUTOR}"
        )
    if plan.tables is not None:
        for move in plan.moves:
            if move.is_for_all and move.remembered is not None:
                yield (
                    f"{move.partition.topic}[{move.partition.number}]: {move.fault}, so there the"
                    " memory of all tables goes back, not of these alone"
                )
    yield from _restores(plan.restores)
    if plan.moves:
        where = _count(len(plan.moves), "partition")
        sentence = f"{_count(plan.records, 'record')} would be read again in {where}"
        yield _sentence(sentence, executed=executed)
    elif plan.tables is not None:
        yield f"nothing to change: group {plan.group} would read nothing of these tables again"
    elif plan.has_begun:
        yield f"nothing to change: group {plan.group} stands there already, or before"
    else:
        yield f"nothing to change: group {plan.group} has read nothing yet, it begins at the start"


def _again(plan: GroupReplay, table: str) -> int:
    return sum(each.share.of_tables.get(table, 0) for each in plan.moves if each.share)


def _of_others(plan: GroupReplay) -> int:
    return sum(each.share.of_others for each in plan.moves if each.share)


def _others(plan: GroupReplay) -> set[str]:
    return {table for each in plan.moves if each.share for table in each.share.others}


def _remembers(plan: GroupReplay) -> bool:
    return any(each.remembered is not None for each in plan.moves)


def events_told(plan: EventReplay) -> dict[str, Any]:
    """A plan of events as JSON's values."""
    return {
        "restores": plan.restores,
        "changes": [
            {
                "event": type(found.event).__name__,
                "table": found.event.table,
                "event_id": found.event.event_id,
                "from": found.origin,
            }
            for found in plan.events
        ],
        "unreadable": [
            {
                "from": each.origin,
                "key": None
                if each.record.key is None
                else each.record.key.decode(errors="replace"),
                "reason": each.reason,
            }
            for each in plan.unreadable
        ],
    }


def event_sentences(plan: EventReplay, *, executed: bool) -> Iterator[str]:
    """A plan of events in sentences, below the table of its changes."""
    for each in plan.unreadable[:_NAMED]:
        yield f"{each.origin} can't be read: {each.reason}"
    if len(plan.unreadable) > _NAMED:
        yield f"... and {len(plan.unreadable) - _NAMED} more; --json names all of them"
    if plan.unreadable:
        yield f"{_count(len(plan.unreadable), 'record')} can't be read: not published again"
    yield from _restores(plan.restores)
    if plan.events:
        sentence = f"{_count(len(plan.events), 'event')} would be published again"
        yield _sentence(sentence, executed=executed)


def _restores(count: int) -> Iterator[str]:
    if count:
        yield f"{count} of them ask for a restore: they need --with-restores"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _sentence(sentence: str, *, executed: bool) -> str:
    if executed:
        return sentence.replace("would be", "to be") + ": done"
    return f"{sentence}; add --execute to do it"
