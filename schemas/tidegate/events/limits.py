"""The limits of the events' fields, enforced when an event is made and when it is read.

A writer of facts could otherwise stop a service: a name of 400 KB makes a command that no
topic takes, and long texts outgrow the coordinator's rows. The limits are in the documentation of
the fields in the Avro schemas too. Lists in outcomes are limited by the size of a message alone.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from tidegate.errors import validation

MAX_VALUE_BYTES: Final = 2 * 2**20
"""The largest value that is decoded. Brokers accept batches of 1 MiB, but compressed."""
MAX_WIDE_BYTES: Final = 8 * 2**20
"""The same of a vacuum in this version's own schema: it may name very many locks. Its lists are
counted while they are read, so that a small message can't become a large event."""
MAX_MESSAGE_CHARS: Final = 10_000
_ABSOLUTE: Final = re.compile(r"(/|[A-Za-z][A-Za-z0-9+.-]*:/)[^\x00-\x1f\x7f]*")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def _absolute(location: str) -> str:
    if not _ABSOLUTE.fullmatch(location):
        hint = ", e.g. /lake/orders or s3://bucket/orders, without control characters"
        raise ValueError(f"not an absolute path or URI{hint}")
    return location


Text = Annotated[str, Field(min_length=1, max_length=1_000)]
LongText = Annotated[str, Field(max_length=10_000)]
Path = Annotated[str, Field(min_length=1, max_length=4_000)]
"""At most as long as Hive's metastore stores a location."""
Location = Annotated[Path, AfterValidator(_absolute)]
"""An absolute path or URI."""
HudiInstant = Annotated[str, Field(pattern=validation.INSTANT)]
"""A requested or completion time as in the names of a Hudi timeline."""
DirectoryName = Annotated[str, Field(pattern=validation.DIRECTORY)]
"""The name of one directory, without a path."""
Snapshot = Annotated[str, Field(min_length=1, max_length=250_000)]
"""A ValidWriteIdList."""
ContentHash = Annotated[str, Field(pattern=validation.CONTENT_HASH)]
"""A hash of the contents of directories, see `tidegate.hive.content_hash`."""
MetadataKey = Annotated[str, Field(max_length=1_000)]
MetadataValue = Annotated[str, Field(max_length=100_000)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Id = Annotated[int, Field(ge=0, lt=2**63)]
"""An id of the metastore: of a lock, a transaction or a write."""
ErrorText = Annotated[str, AfterValidator(_shortened)]
"""An error as a service reported it; a longer one is shortened."""
Message = Annotated[str, Field(min_length=1), AfterValidator(_shortened)]
"""A sentence for people; a longer one is shortened, because an outcome must always be published."""

MAX_DIRECTORIES: Final = 1_000
MAX_LOCKS: Final = 100_000
MAX_TRANSACTIONS: Final = 100_000
MAX_METADATA: Final = 1_000
