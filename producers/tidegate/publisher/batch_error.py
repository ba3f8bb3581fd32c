"""The error of a call with unconfirmed events: which events, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.errors import DeliveryError, MessageTooLargeError, NotStored, Receipt, Unconfirmed
from tidegate.events import Event, Request, VacuumFinished

_SHOWN: Final = 3
_TOO_LARGE: Final = "; raise max.message.bytes of the topic"
_TOO_MANY_HOLDS: Final = (
    ", or leave out the locks whose transaction_id is among open_transactions: they end with it"
)


def error_of_batch(error: DeliveryError, events: Sequence[Event]) -> DeliveryError:
    """The same error with the ids of the events, and the results in their order."""
    requests = [event.event_id for event in events if isinstance(event, Request)]
    hint = f"; repeat with the request id {', '.join(requests)}" if requests else ""
    if isinstance(error, MessageTooLargeError):
        hint = _TOO_LARGE
        if any(isinstance(event, VacuumFinished) for event in events):
            hint += _TOO_MANY_HOLDS
    elif type(error) is not DeliveryError:
        hint = ""  # what is denied was not stored, and repeating it is useless
    named = type(error)(f"{error}{_refused(error, events)}{hint}")
    named.event_ids = tuple(event.event_id for event in events)
    named.results = tuple(
        result._replace(event_id=event_id)
        for result, event_id in zip(error.results, named.event_ids, strict=False)
    )
    return named


def _refused(error: DeliveryError, events: Sequence[Event]) -> str:
    """The message that lists the events that were not stored; `results` has all of them."""
    if len(events) == 1:
        return ""
    refused = [
        f"event {number} ({event.event_id}): {result.reason}"
        for number, (event, result) in enumerate(zip(events, error.results, strict=False), 1)
        if isinstance(result, NotStored)
    ]
    stored = sum(isinstance(result, Receipt) for result in error.results)
    unknown = sum(isinstance(result, Unconfirmed) for result in error.results)
    shown = ", ".join(refused[:_SHOWN]) + (", ..." if len(refused) > _SHOWN else "")
    return (
        f"; {stored} stored, {unknown} unconfirmed, {len(refused)} not stored"
        f"{': ' if refused else ''}{shown}"
    )
