"""Types and limits of the events' fields: names, locations, identities, durations.

The limits are enforced when an event is made and when it is read. A writer of facts could otherwise
stop a service: a name of 400 KB makes a command that no topic takes, and long texts outgrow the
coordinator's rows. The limits are in the documentation of the fields in the Avro schemas too. Lists
in outcomes are limited by the size of a message alone.

A name that differs from another one by invisible characters would be taken for another person, who
may then approve that person's request. So names have none.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha1
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from tidegate.errors import FormatError, validation

MAX_VALUE_BYTES: Final = 2 * 2**20
"""The largest value that is decoded. Brokers accept batches of 1 MiB, but compressed."""
MAX_WIDE_BYTES: Final = 8 * 2**20
"""The same of a vacuum in this version's own schema: it may name very many locks. Its lists are
counted while they are read, so that a small message can't become a large event."""
MAX_MESSAGE_CHARS: Final = 10_000
_ABSOLUTE: Final = re.compile(r"(/|[A-Za-z][A-Za-z0-9+.-]*:/)[^\x00-\x1f\x7f]*")


def _encodable(text: object) -> object:
    """Bytes of a file name that are not UTF-8, which Python makes lone surrogates, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode() if isinstance(text, str) else text


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def absolute(location: str) -> str:
    """The location, if it is an absolute path or URI.

    Raises:
        ValueError: it is not.
    """
    if not _ABSOLUTE.fullmatch(location):
        hint = ", e.g. /lake/orders or s3://bucket/orders, without control characters"
        raise ValueError(f"not an absolute path or URI{hint}")
    return location


Text = Annotated[str, Field(min_length=1, max_length=1_000)]
LongText = Annotated[str, Field(max_length=10_000)]
Path = Annotated[str, Field(min_length=1, max_length=4_000)]
"""At most as long as Hive's metastore stores a location."""
Location = Annotated[Path, AfterValidator(absolute)]
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
Id = Annotated[int, Field(ge=0, lt=2**62)]
"""An id of the metastore: of a lock, a transaction or a write. The coordinator's rows need a bit to
tell the first two apart."""
ErrorText = Annotated[str, BeforeValidator(_encodable), AfterValidator(_shortened)]
"""An error as a service reported it; a longer one is shortened."""
Message = Annotated[
    str, BeforeValidator(_encodable), Field(min_length=1), AfterValidator(_shortened)
]
"""A sentence for people; a longer one is shortened, because an outcome must always be published."""
MAX_DIRECTORIES: Final = 1_000
MAX_LOCKS: Final = 100_000
MAX_TRANSACTIONS: Final = 100_000
MAX_METADATA: Final = 1_000
_HIDDEN_CATEGORIES: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Control, format, surrogate, private, unassigned; the separators of lines and paragraphs."""
_HIDDEN: Final = re.compile(
    # what Unicode lets a font ignore (Default_Ignorable_Code_Point) and is of other categories
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
    # what fonts show as a blank although it is not a space
    "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159]"
)


def has_hidden(text: str) -> bool:
    """Whether a text has a character that can't be seen, or that changes how others are shown."""
    if text.isascii():
        return not text.isprintable()
    return _HIDDEN.search(text) is not None or any(
        unicodedata.category(sign) in _HIDDEN_CATEGORIES for sign in text
    )


@lru_cache(maxsize=1_000)  # few names stand in very many events
def visible(name: str) -> str:
    """The name.

    Raises:
        ValueError: it has a hidden character, or nothing but spaces.
    """
    if has_hidden(name):
        raise ValueError("a name has no control, format or other invisible characters")
    if not compared(name):
        raise ValueError("a name has more than spaces")
    return name


def compared(name: str) -> str:
    """A name without case, spaces and Unicode forms, for comparison."""
    folded = unicodedata.normalize("NFD", name).casefold()
    folded = unicodedata.normalize("NFKC", folded).casefold()
    return unicodedata.normalize("NFKC", "".join(folded.split()))


Name = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(visible)]
"""The name of a person, an application or a policy."""
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "tidegate.events").bytes
_fresh: Final = sha1(_NAMESPACE, usedforsecurity=False).copy
"""Begins a hash at half the cost of finding the algorithm by name."""
_PART: Final = re.compile(r"[^\s./\\\x00-\x1f]+")
_PARTS: Final = 3
_VARIANT: Final = {f"{digit:x}": "89ab"[digit & 3] for digit in range(16)}
"""The digit that takes the variant of RFC 9562, by what it was."""


@lru_cache(maxsize=100)  # all messages of a batch have the broker's time of that batch
def to_ms(at: datetime) -> int:
    """A time in milliseconds since the epoch."""
    return round(at.timestamp() * 1000)


@lru_cache(maxsize=100)
def from_ms(ms: int) -> datetime:
    """The time that is so many milliseconds after the epoch."""
    return datetime.fromtimestamp(ms / 1000, UTC)


@lru_cache(maxsize=10_000)  # every event names a table, and there are few tables
def table_identity(name: str) -> str:
    """Normalise a table's name to `catalog.database.table`, the key of every topic.

    Hive Metastore and Spark fold names to lower case, so two spellings are one table.

    Raises:
        FormatError: not exactly three non-empty parts, or a part holds white space, a slash, a
            backslash, or a control or invisible character.
    """
    parts = name.strip().lower().split(".")
    if (
        len(parts) != _PARTS
        or not all(_PART.fullmatch(part) for part in parts)
        or has_hidden(name.strip())
    ):
        raise FormatError(f"{name!r} is not a table name of the form catalog.database.table")
    return ".".join(parts)


def derived_id(*parts: object) -> str:
    """Derive an event id (a version 5 UUID) from the values that identify the event.

    The same values give the same id on every machine and in every replay, so repeats are
    recognised.
    """
    # as uuid.uuid5 does, at a fifth of its cost: this runs for every fact that is read
    digest = _fresh()
    digest.update("\x1f".join(["" if part is None else str(part) for part in parts]).encode())
    name = digest.hexdigest()
    variant = _VARIANT[name[16]]
    return f"{name[:8]}-{name[8:12]}-5{name[13:16]}-{variant}{name[17:20]}-{name[20:32]}"


def plain_options(options: object, *, fractions: bool = True) -> object:
    """Refuse a table in another program's options; a name with dots without quotes makes one.

    Raises:
        ValueError: an option is not text, a number, true or false.
    """
    kinds = (str, int, float, SecretStr) if fractions else (str, int, SecretStr)
    for name, value in options.items() if isinstance(options, dict) else ():
        names, inner = [str(name)], value
        while isinstance(inner, dict) and inner:
            below, inner = next(iter(inner.items()))
            names.append(str(below))
        if len(names) > 1:
            raise ValueError(f'put the name in quotes: "{".".join(names)}" = ...')
        if not isinstance(value, kinds):
            raise ValueError(  # noqa: TRY004 - pydantic reports this one
                f"{name}: write text, a{'' if fractions else ' whole'} number, true or false"
            )
    return options


_UNITS: Final = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_SHORT: Final = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,9}}){unit})?" for unit in _UNITS))
_SHOWN: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    Raises:
        ValueError: it is not one.
    """
    found = _SHORT.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        raise ValueError("not a duration such as 90s, 1h30m, 12h, 30d or 4w")
    try:
        return timedelta(**{_UNITS[unit]: int(n) for unit, n in found.groupdict().items() if n})
    except OverflowError as error:
        raise ValueError("longer than a duration can be") from error


def elapsed_ms(began: datetime, ended: datetime) -> int:
    """Whole milliseconds between two times; 0 if the clock was set back."""
    return max(0, (ended - began) // timedelta(milliseconds=1))


def span(of: timedelta) -> str:
    """A duration in one unit, as `parse_duration` reads it: 1d, 36h, 90s."""
    seconds = of // timedelta(seconds=1)
    unit, name = next((u for u in _SHOWN if seconds and seconds % u[0] == 0), _SHOWN[-1])
    return f"{seconds // unit}{name}"
