"""The library that upstream writers use to publish events.

    with Publisher("broker:9092", source="orders-ingest") as publisher:
        publisher.commit(table="lake.sales.orders", location="s3://lake/orders", instant=instant)

A call returns once every in-sync replica of the broker has the event, or raises.
"""

from __future__ import annotations

from tidegate.errors import Delivery, NotStored, Receipt, Unconfirmed
from tidegate.events.wire import Message
from tidegate.publisher.delivery import ConfirmedProducer
from tidegate.publisher.publisher import Publisher
from tidegate.publisher.watch import Answered, OutcomeWatch

__all__ = [
    "Answered",
    "ConfirmedProducer",
    "Delivery",
    "Message",
    "NotStored",
    "OutcomeWatch",
    "Publisher",
    "Receipt",
    "Unconfirmed",
]
