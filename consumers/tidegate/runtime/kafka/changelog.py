"""The rows on a compacted topic, and the fence that keeps earlier owners from writing.

One transactional producer writes all partitions that a process owns. Every acquisition uses a new
transactional id. Another process takes that id only to fence it:

1. Sign: the new owner writes its id to each partition, in a committed transaction.
2. Search: it reads each partition up to its own signature. Every signature before that belongs to
   an earlier owner. An owner writes nothing before it has signed.
3. Fence: it takes the ids of the earlier owners. The broker aborts their open transactions and
   refuses their further writes.
4. Read: the committed records are now the complete state. Only the new owner can add to it, until
   another owner signs later, finds this signature and fences it.
5. Erase: it removes the signatures of the fenced owners.

An owner that comes back knows what it wrote, and searches for signatures only after that. So if a
fenced owner has written after the new signature, the acquisition starts again with a later one.

Of any two owners, the one that signed later fences the other, regardless of what the group reports
to either. The order of the log decides which one signed later. Each signature has a key of its own,
so compaction retains it until it is erased. An open transaction of an earlier owner hides the
signatures after its beginning. That part of a partition is read without regard to transactions.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from confluent_kafka import KafkaException

from tidegate.errors import StopService, TransientError
from tidegate.runtime.bus import ChangelogRecord, Partition, Record
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.fenced_producer import FORGOTTEN, FencedProducer, fence, is_fence
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import APPENDED, Config, PartitionReader, readable

log = logging.getLogger(__name__)
T = TypeVar("T")
SIGNATURE: Final = b"\x00owner\x00"
"""The beginning of a signature's key, before the id. No table's key begins with a zero byte."""
_BATCH: Final = 1000


class _Signatures:
    """The owners of one partition that signed and were not erased, in the order of the log."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self.last_other = -1
        """The offset of the last record that is not a signature."""

    def add(self, owner: str, offset: int, *, erased: bool = False) -> None:
        if erased:
            self.offsets.pop(owner, None)
        else:
            self.offsets.setdefault(owner, offset)


class KafkaChangelog:
    """Partitions of a changelog topic, writable by this process until another acquires them."""

    def __init__(self, config: Config, topic: str, metadata: KafkaMetadata) -> None:
        """Own nothing yet."""
        self._config, self._topic, self._metadata = config, topic, metadata
        self._owner = ""
        self._producer: FencedProducer | None = None
        self._ends: dict[int, int] = {}
        """By partition, the offset after the last record that this object read or wrote."""
        self._signed: dict[int, _Signatures] = {}
        self._owned: frozenset[int] = frozenset()
        self._forgotten: frozenset[int] = frozenset()
        """The owned partitions that must be signed again before anything is written."""
        self._own_ids: set[str] = set()
        """The ids with which this object signed since it acquired its partitions."""

    def acquire(
        self, numbers: Collection[int], kept: Collection[int] = ()
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        """Own these partitions and no others, once the caller has consumed all that is yielded.

        Args:
            numbers: The partitions.
            kept: Those of them that this object owned last and for which nothing is unwritten. One
                of these is yielded completely if another process has written to it since, else
                not at all.

        Yields:
            Records of a partition, oldest first; a later value of a key replaces an earlier one.

        Raises:
            StopService: another process has acquired one of them meanwhile.
            TransientError: the broker does not answer now, or not all records could be read.
        """
        self._forgotten, self._own_ids = frozenset(), set()
        return self._acquire(sorted(numbers), frozenset(kept), alone=False)

    def write(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        """Append in one transaction.

        Raises:
            StopService: another process has acquired one of these partitions.
            TransientError: the broker did not accept it now, or did not report the outcome. Repeat
                all of it before you write anything else.
        """
        self._guarded(lambda: self._write_or_sign_again(entries))

    def appended_ms(self) -> int | None:
        """When the broker appended the last record of this object, which may be its signature."""
        return None if self._producer is None else self._producer.appended_ms

    def close(self) -> None:
        """Discard unwritten records; a later owner's fence stays."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _acquire(
        self, numbers: Sequence[int], kept: frozenset[int], *, alone: bool
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        self._owned = frozenset()
        own = self._guarded(lambda: self._sign(numbers))
        cut_off = {number for number in kept if own[number] < self._ends[number]}
        if cut_off:
            log.warning("%s: the broker has lost records of %s", self._topic, sorted(cut_off))
            yield from ((number, []) for number in cut_off)
            kept -= cut_off
        for number in set(numbers) - kept:
            self._signed[number], self._ends[number] = _Signatures(), 0
        seen: set[int] = set()

        def new(
            batches: Iterator[tuple[int, Sequence[ChangelogRecord]]],
        ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
            for number, records in batches:
                seen.add(number)
                if number not in kept:
                    yield number, records

        starts = {Partition(self._topic, number): self._ends[number] for number in numbers}
        with PartitionReader(self._config, starts) as reader:
            ends = self._metadata.ends(starts, APPENDED)
            yield from new(self._batches(reader.read(ends, decided=True)))
            self._search({p: at for p, at in reader.positions.items() if at < ends[p]}, own)
            others = {owner for owners in self._earlier(own).values() for owner in owners}
            if alone and others - self._own_ids:
                raise StopService(self._fenced())
            erased = self._guarded(lambda: self._fence(own))
            ends = self._metadata.ends(starts, APPENDED)
            yield from new(self._batches(reader.read(ends)))
        self._require_last(own)
        if changed := seen & kept:
            yield from ((number, []) for number in changed)
            parts = [Partition(self._topic, number) for number in changed]
            with PartitionReader(self._config, dict.fromkeys(parts, 0)) as reader:
                yield from self._batches(reader.read({part: ends[part] for part in parts}))
        self._ends = {part.number: end for part, end in ends.items()}
        self._owned, self._forgotten = frozenset(numbers), frozenset()
        if erased:
            self.write(erased)

    def _sign(self, numbers: Sequence[int]) -> dict[int, int]:
        """Take a new id and write it to each partition; return the offset of each signature."""
        self.close()
        self._owner = f"{self._topic}-{uuid.uuid4().hex}"
        self._own_ids.add(self._owner)
        self._producer = FencedProducer(self._config, self._topic, self._owner)
        place = f"{socket.gethostname()} {os.getpid()}".encode()  # for people only
        entry = (SIGNATURE + self._owner.encode(), place)
        self._producer.write({number: [entry] for number in numbers})
        return {number: self._producer.ends[number] - 1 for number in numbers}

    def _batches(
        self, records: Iterator[Record]
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        """Group the records by partition, without the signatures, which are only recorded here."""
        batches: dict[int, list[ChangelogRecord]] = {}
        with translate_kafka_errors(f"reading {self._topic}"):
            for record in readable(records):
                if self._is_signature(record):
                    continue
                number = record.partition.number
                batch = batches.setdefault(number, [])
                batch.append((record.key or b"", record.value))
                if len(batch) >= _BATCH:
                    yield number, batches.pop(number)
        yield from batches.items()

    def _is_signature(self, record: Record) -> bool:
        key, erased = record.key or b"", False
        signed = self._signed[record.partition.number]
        if is_signature := key.startswith(SIGNATURE):
            erased = record.value is None
            signed.add(key.removeprefix(SIGNATURE).decode(), record.offset, erased=erased)
        if erased or not is_signature:
            signed.last_other = max(signed.last_other, record.offset)
        return is_signature

    def _search(self, starts: Mapping[Partition, int], own: Mapping[int, int]) -> None:
        """Find the signatures before ours among the records that an open transaction hides."""
        if not starts:
            return
        numbers = sorted(part.number for part in starts)
        log.info("%s: an open transaction hides the end of %s", self._topic, numbers)
        until = {part: own[part.number] for part in starts}
        with PartitionReader(self._config, starts, committed=False) as reader:
            for record in readable(reader.read(until)):
                if record.value is not None and record.offset < until[record.partition]:
                    self._is_signature(record)

    def _earlier(self, own: Mapping[int, int]) -> dict[int, list[str]]:
        """By partition, the owners that signed before us."""
        found = {
            number: [owner for owner, at in self._signed[number].offsets.items() if at < offset]
            for number, offset in own.items()
        }
        return {number: owners for number, owners in found.items() if owners}

    def _fence(self, own: Mapping[int, int]) -> dict[int, list[ChangelogRecord]]:
        """Fence the earlier owners; return the records that erase their signatures."""
        earlier = self._earlier(own)
        fence(self._config, sorted({owner for owners in earlier.values() for owner in owners}))
        erased: dict[int, list[ChangelogRecord]] = {}
        for number, owners in earlier.items():
            for owner in owners:
                self._signed[number].add(owner, 0, erased=True)
            erased[number] = [(SIGNATURE + owner.encode(), None) for owner in owners]
        return erased

    def _require_last(self, own: Mapping[int, int]) -> None:
        for number, offset in own.items():
            signed = self._signed[number]
            if any(at > offset for at in signed.offsets.values()):  # it may have erased ours
                raise StopService(self._fenced())
            if signed.offsets.get(self._owner) != offset:
                raise TransientError(f"{self._topic}[{number}]: our own signature was not read")
            if signed.last_other > offset:  # its writer would miss our signature if it came back
                raise TransientError(f"{self._topic}[{number}]: written to while we acquired it")

    def _write_or_sign_again(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        if not self._forgotten:
            try:
                self._write(entries)
            except KafkaException as error:
                if error.args[0].code() != FORGOTTEN:
                    raise
                # The broker forgets an id that is idle for days. It returns the same code if
                # another process has fenced the id since, but then that process has signed.
                self._forgotten = self._owned
            else:
                return
        for _ in self._acquire(sorted(self._forgotten), self._forgotten, alone=True):
            raise StopService(self._fenced())
        log.info("%s: signed again after a long idle time", self._topic)
        self._write(entries)

    def _write(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        if self._producer is None or not entries.keys() <= self._owned:
            raise StopService(f"{self._topic}: written to before it was acquired")
        self._producer.write(entries)
        self._ends |= self._producer.ends

    def _fenced(self) -> str:
        return f"another process has opened {self._topic} since"

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            with translate_kafka_errors(f"changelog {self._topic}"):
                return action()
        except StopService as error:
            if isinstance(error.__cause__, KafkaException) and is_fence(error.__cause__):
                raise StopService(self._fenced()) from error
            raise
