"""What upstream writers import: say on Kafka what was done.

    with Publisher("broker:9092", said_by="orders-ingest") as publisher:
        publisher.commit(table="lake.sales.orders", location="s3://lake/orders", instant=instant)

A call returns when the broker has the event on disk of every in-sync replica, or raises.
"""

from __future__ import annotations

from tidegate.events.message import Message
from tidegate.publisher.delivery import ConfirmedProducer, Receipt
from tidegate.publisher.publisher import Publisher

__all__ = ["ConfirmedProducer", "Message", "Publisher", "Receipt"]
