"""The end of a partition, defined once for all readers and counters.

The end is the last stable offset: the first one that a consumer of committed records can't read
yet. Before it, some offsets hold no record: markers of transactions, and aborted records. So the
position of a reader does not follow from the records alone. When the client reaches the end it
reports the offset that it would read next, and every comparison with an end uses that offset.

An open transaction hides the records that were appended after it began. For tools and for the lag
the partition ends there. `APPENDED` is the end behind it. Two readers use it, because they must not
miss hidden records: the owner of a changelog, and a service that checks for reasons against a
destructive step. That check fails while a transaction hides records.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka import Message as Received

REPORTS_ENDS: Final = {"enable.partition.eof": True}
"""The setting that makes a consumer report the end of a partition, as an error."""
STABLE: Final = IsolationLevel.READ_COMMITTED
"""The isolation level of a request for ends."""
APPENDED: Final = IsolationLevel.READ_UNCOMMITTED
"""The isolation level of a request for ends that include what open transactions hide."""


def is_end(error: KafkaError) -> bool:
    """Whether an error stands for the end of a partition."""
    return bool(error.code() == KafkaError._PARTITION_EOF)  # noqa: SLF001 - its only name


def read_up_to(message: Received) -> int | None:
    """The offset before which the partition was read completely, given its latest message.

    None if the message is an error other than the end: then the offset is unknown.
    """
    offset, error = int(message.offset() or 0), message.error()
    if error is None:
        return offset + 1
    return offset if is_end(error) else None
