"""The library that upstream writers use to publish events.

    with Publisher("broker:9092", source="orders-ingest") as publisher:
        publisher.commit(table="lake.sales.orders", location="s3://lake/orders", instant=instant)

A call returns once every in-sync replica of the broker has the event, or raises.
"""

from __future__ import annotations

from tidegate.errors import Delivery as Delivery
from tidegate.errors import NotStored as NotStored
from tidegate.errors import Receipt as Receipt
from tidegate.errors import Unconfirmed as Unconfirmed
from tidegate.events.wire import Message as Message
from tidegate.publisher.delivery import ConfirmedProducer as ConfirmedProducer
from tidegate.publisher.publisher import Publisher as Publisher
from tidegate.publisher.watch import Answered as Answered
from tidegate.publisher.watch import OutcomeWatch as OutcomeWatch
