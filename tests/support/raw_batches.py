"""Record batches that no client library writes, sent to a real broker in Kafka's own protocol.

Layouts: https://kafka.apache.org/documentation/#recordbatch (magic 2) and the Produce request, v7.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

_TABLE: Final[list[int]] = []
for _byte in range(256):
    _value = _byte
    for _ in range(8):
        _value = (_value >> 1) ^ (0x82F63B78 if _value & 1 else 0)
    _TABLE.append(_value)
NO_COMPRESSION, GZIP, ZSTD = 0, 1, 4
_ZSTD_BLOCK: Final = 128 * 1024
_ZSTD_WINDOW: Final = bytes([17 << 3])
"""2^(10+17) bytes."""
_RAW, _REPEATED = 0, 1
_NO_LEADER_YET: Final = {3, 5, 6}
Pairs = Sequence[tuple[bytes, bytes | None]]


def crc32c(content: bytes) -> int:
    """The checksum of a batch (Castagnoli's polynomial)."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """A signed number, zigzag-encoded, in groups of seven bits."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(number: int, key: bytes | None, value: bytes | None, headers: Pairs = ()) -> bytes:
    """A record of a batch; the names of its headers may be any bytes."""
    pairs = b"".join(_sized(name) + _sized(content) for name, content in headers)
    body = b"\0" + varint(0) + varint(number) + _sized(key) + _sized(value)
    body += varint(len(headers)) + pairs
    return varint(len(body)) + body


def zstd_bomb(key: bytes, sizes: Sequence[int]) -> bytes:
    """Records whose values are zeros, as a zstd frame: four bytes for each 128 KiB of them."""
    blocks: list[bytes] = []
    for number, size in enumerate(sizes):
        head = b"\0" + varint(0) + varint(number) + _sized(key) + varint(size)
        head = varint(len(head) + size + 1) + head
        whole, rest = divmod(size, _ZSTD_BLOCK)
        blocks += [_block(_RAW, len(head), head), *[_block(_REPEATED, _ZSTD_BLOCK, b"\0")] * whole]
        blocks += [_block(_REPEATED, rest, b"\0")] if rest else []
        blocks.append(_block(_RAW, 1, varint(0), last=number + 1 == len(sizes)))  # no headers
    return struct.pack("<I", 0xFD2FB528) + b"\0" + _ZSTD_WINDOW + b"".join(blocks)


def _block(kind: int, size: int, content: bytes, *, last: bool = False) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + content


def batch(records: bytes, count: int = 1, codec: int = NO_COMPRESSION) -> bytes:
    """A record batch; `records` are compressed already if there is a codec."""
    checked = struct.pack(">hiqqqhii", codec, count - 1, 0, 0, -1, -1, -1, count) + records
    after_length = struct.pack(">ibI", -1, 2, crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(after_length)) + after_length


def produce(servers: str, topic: str, partition: int, content: bytes) -> int:
    """Send a batch to the only broker and give the offset of its first record."""
    deadline = time.monotonic() + 60
    while (answer := _produce(servers, topic, partition, content))[0] in _NO_LEADER_YET:
        assert time.monotonic() < deadline, "no leader"
        time.sleep(0.1)
    error, offset = answer
    assert error == 0, f"the broker answers error {error}"
    return offset


def _produce(servers: str, topic: str, partition: int, content: bytes) -> tuple[int, int]:
    name = topic.encode()
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, partition, len(content)) + content
    request = struct.pack(">hhih", 0, 7, 1, -1) + body
    host, _, port = servers.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        response = answer.read(size)
    at = 4 + 4 + 2 + len(name) + 4 + 4
    error, offset = struct.unpack(">hq", response[at : at + 10])
    return int(error), int(offset)
