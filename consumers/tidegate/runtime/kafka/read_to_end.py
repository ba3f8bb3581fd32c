"""When a partition was read to its end: one notion, for whatever reads or counts.

The end is the last stable offset, the first one that a consumer which reads committed records can't
read yet. Transactions leave offsets before it that hold no record: markers, and what was aborted.
So no position follows from the records alone. Where the client reaches the end it says so, with the
offset that it would read next; every comparison with an end goes by that.

An open transaction hides what was appended after it began. For tools and lag the partition ends
there. `APPENDED` is the end behind it, for two who must not miss what is hidden: the owner of a
changelog, and the look-ups of services before they destroy something, which fail meanwhile.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka import Message as Received

REPORTS_ENDS: Final = {"enable.partition.eof": True}
"""The setting with which a consumer is given an error for the end of a partition."""
STABLE: Final = IsolationLevel.READ_COMMITTED
"""With which a broker is asked for ends."""
APPENDED: Final = IsolationLevel.READ_UNCOMMITTED
"""With which it is asked for ends behind what open transactions hide."""


def is_end(error: KafkaError) -> bool:
    """Whether an error stands for the end of a partition."""
    return bool(error.code() == KafkaError._PARTITION_EOF)  # noqa: SLF001 - its only name


def read_up_to(message: Received) -> int | None:
    """The offset before which all of a partition was read, once this message has come.

    None for an error that is not the end: then it is not known.
    """
    offset, error = int(message.offset() or 0), message.error()
    if error is None:
        return offset + 1
    return offset if is_end(error) else None
