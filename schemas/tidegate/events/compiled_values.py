"""What compiled readers call: numbers, times, and texts that repeat. See `compiled_reader`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_REMEMBERED: Final = 8_192
"""Tables, locations and spans of time that are remembered, each: they repeat."""
_FURTHER: Final = ((28, 4), (35, 5), (42, 6), (49, 7), (56, 8))
"""The fifth byte of a number and those after it: where its bits begin, and where it lies. With a
tenth byte, a number may not fit into 64 bits."""
_MORE: Final = 0x80
"""The bit of a byte after which there are more of the number."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def number_at(value: bytes, at: int) -> tuple[int, int]:
    """A number of two bytes or more, still in zigzag order, and where it ends.

    Each byte but the last has a bit that says so; it is subtracted where it was added. That takes
    half the time of a loop over masks, and most numbers have less than five bytes.

    Raises:
        ValueError, IndexError: it has too many bytes, or is cut off.
    """
    if (byte := value[at + 1]) < _MORE:
        return value[at] + (byte << 7) - 0x80, at + 2
    if (third := value[at + 2]) < _MORE:
        return value[at] + (byte << 7) + (third << 14) - 0x4080, at + 3
    number = value[at] + (byte << 7) + (third << 14) + ((byte := value[at + 3]) << 21) - 0x20_4080
    if byte < _MORE:
        return number, at + 4
    for shift, end in _FURTHER:
        number += ((byte := value[at + end]) << shift) - (1 << shift)
        if byte < _MORE:
            return number, at + end + 1
    raise ValueError("a number of too many bytes")


class Times(dict[bytes, datetime]):
    """By the last four of a time's eight bytes when that span of 134 seconds began.

    Microseconds since the epoch have eight bytes from 1987 to 3111, and events that follow each
    other differ in the first four.
    """

    def __missing__(self, end: bytes) -> datetime:
        """Work it out, and remember it.

        Raises:
            ValueError: they are not the last four of eight bytes.
        """
        if end[0] < _MORE or end[1] < _MORE or end[2] < _MORE or end[3] >= _MORE:
            raise ValueError("not a number of eight bytes")
        number, _ = number_at(b"\x80\x80\x80\x80" + end, 0)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[end] = began = _EPOCH + timedelta(microseconds=number >> 1)
        return began


def moment_at(value: bytes, at: int) -> tuple[datetime, int]:
    """A time of any number of bytes, and where it ends.

    Raises:
        ValueError, IndexError: it is before 1970, has too many bytes, or is cut off.
        OverflowError: it is after the year 9999.
    """
    number, end = number_at(value, at) if value[at] & _MORE else (value[at], at + 1)
    if number & 1:
        raise ValueError("before 1970")
    return _EPOCH + timedelta(microseconds=number >> 1), end


class Valid(dict[bytes, str]):
    """By their bytes the values that pydantic has found valid, and what it made of them.

    Where there are too many, all are forgotten: it is used for every fact, and reading this
    takes a quarter of the time that `lru_cache` takes to keep its order.
    """

    def __init__(self, adapter: TypeAdapter[str]) -> None:
        """Take what validates them."""
        super().__init__()
        self._adapter = adapter

    def __missing__(self, value: bytes) -> str:
        """Validate a value, and remember it.

        Raises:
            ValueError: it is invalid, or not UTF-8.
        """
        valid = self._adapter.validate_python(value.decode())  # pydantic's error is a ValueError
        if len(self) >= _REMEMBERED:
            self.clear()
        self[value] = valid
        return valid
