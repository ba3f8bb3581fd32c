"""Every decoder of what others wrote, with inputs to try and the errors that it documents.

    python -m support.fuzzing NAME EXAMPLES LAST

runs one decoder in this process, which may have 256 MB more than it begins with, and writes every
input to the file LAST before it is decoded: what ended the process is in it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import fastavro
from fastavro.utils import generate_many
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.fuzz_inputs import (
    any_json,
    avro_data,
    avro_schemas,
    containers,
    damaged,
    damaged_json,
    damaged_text,
    json_bytes,
    json_text,
)
from tidegate.errors import ConfigError, FormatError
from tidegate.events import RestoreRequested, VacuumFinished
from tidegate.events.base import Event
from tidegate.events.codec import RegistryKey, Schema, decode_body, schema_text, writer_from
from tidegate.events.topics import EVENT_TYPES
from tidegate.events.wire import Wire

MEMORY: Final = 256 * 2**20
SECONDS: Final = 2.0
HUDI: Final = (
    "HoodieCommitMetadata",
    "HoodieReplaceCommitMetadata",
    "HoodieRestoreMetadata",
    "HoodieRestorePlan",
    "HoodieRollbackMetadata",
    "HoodieRollbackPlan",
    "HoodieSavepointMetadata",
)


@dataclass(frozen=True)
class Decoder:
    """A decoder, its inputs, and the errors by which it refuses one."""

    inputs: st.SearchStrategy[Any]
    decode: Callable[[Any], object]
    refuses: tuple[type[Exception], ...] = (FormatError,)


def _examples() -> dict[str, bytes]:
    folder = files("tidegate.events").joinpath("examples")
    return {name: folder.joinpath(f"{name}.bin").read_bytes() for name in EVENT_TYPES}


def _example_json(kind: str) -> Any:  # noqa: ANN401 - any JSON
    text = files("tidegate.events").joinpath("examples", f"{kind}.json").read_text("utf-8")
    return json.loads(text)


_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["__value_schema_id", "ce_type", "ce_id", "ce_signature", "x"]),
        st.one_of(st.none(), st.binary(max_size=40), st.just(b"\x00\x00\x00\x00\x01")),
    ),
    max_size=4,
)
_KEYS = st.one_of(st.just(b"lake.sales.orders"), st.none(), st.binary(max_size=40))


class _Registry:
    """A registry of this version's schemas, in the order of their names."""

    in_headers = False

    def __init__(self) -> None:
        self._writers = [writer_from(schema_text(name)) for name in sorted(EVENT_TYPES)]

    def prefix(self, model: type[Event], topic: str) -> bytes:
        raise NotImplementedError

    def writer(self, key: RegistryKey) -> Schema:
        number = key.int if isinstance(key, UUID) else key
        if number >= len(self._writers):
            raise FormatError("no such schema")
        return self._writers[number]


def single_object() -> Decoder:
    wire = Wire()
    message = st.tuples(_KEYS, damaged(list(_examples().values())), st.just(()))
    return Decoder(message, lambda it: wire.deserialize(*it))


def confluent_framing() -> Decoder:
    wire, kinds = Wire(_Registry()), sorted(EVENT_TYPES)
    bodies = [
        b"\x00" + kinds.index(name).to_bytes(4, "big") + value[10:]
        for name, value in _examples().items()
    ]
    message = st.tuples(_KEYS, damaged(bodies), st.just(()))
    return Decoder(message, lambda it: wire.deserialize(*it))


def header_framing() -> Decoder:
    wire = Wire(_Registry())
    bodies = [value[10:] for value in _examples().values()]
    return Decoder(st.tuples(_KEYS, damaged(bodies), _HEADERS), lambda it: wire.deserialize(*it))


def registry_schemas() -> Decoder:
    real = [json.loads(schema_text(name)) for name in sorted(EVENT_TYPES)]
    schemas = st.one_of(damaged_json(real), avro_schemas()).map(json_text)

    def decode(it: tuple[str, bytes]) -> object:
        return decode_body(it[1], 0, writer_from(it[0]))

    return Decoder(
        st.tuples(schemas, st.one_of(avro_data(), damaged(list(_examples().values())))), decode
    )


def timeline_names() -> Decoder:
    from tidegate.hudi.file_slice import parse_data_file  # noqa: PLC0415
    from tidegate.hudi.instant import Instant, Layout  # noqa: PLC0415
    from tidegate.hudi.timeline import Timeline  # noqa: PLC0415

    seeds = [
        "20260301100100000.commit.requested",
        "20260301100100000_20260301100130000.commit",
        "20260301100100000.inflight",
        "f1-0_0-1-2_20260301100100000.parquet",
        ".f1-0_20260301100100000.log.1_0-1-2",
    ]

    def decode(names: list[str]) -> object:
        for name in names:
            with suppress(FormatError):  # one name refused: the others are tried all the same
                parse_data_file(name)
        for layout in Layout:
            parsed = [Instant.parse(name, layout) for name in names]
            Timeline.of([event for event in parsed if event is not None])
        return None

    return Decoder(st.lists(damaged_text(seeds), max_size=5), decode, ())


def _hudi_record(name: str) -> bytes:
    from tidegate.hudi import containers as own  # noqa: PLC0415

    schema, out = own.schema(name), BytesIO()
    fastavro.writer(out, schema, [next(generate_many(schema, 1))])
    return out.getvalue()


def _decode_hudi(content: bytes) -> None:
    from tidegate.hudi import commit, rollback, savepoint, table_services  # noqa: PLC0415

    refused = 0
    every = (
        commit.CommitMetadata.decode,
        rollback.RestoreMetadata.decode,
        rollback.RestorePlanFile.decode,
        rollback.rollback_target,
        savepoint.SavepointMetadata.decode,
        table_services.compacted_groups,
        table_services.earliest_retained,
        table_services.earliest_to_retain,
    )
    for decode in every:
        try:
            decode(content)
        except FormatError:
            refused += 1
    if refused == len(every):
        raise FormatError("refused by all")


def hudi_avro() -> Decoder:
    return Decoder(damaged([_hudi_record(name) for name in HUDI]), _decode_hudi)


def hudi_containers() -> Decoder:
    from tidegate.hudi import containers as own  # noqa: PLC0415

    return Decoder(containers([own.schema(name) for name in HUDI]), _decode_hudi)


def hudi_json_commit() -> Decoder:
    from tidegate.hudi.commit import CommitMetadata  # noqa: PLC0415

    stat = {
        "path": "p=1/f1-0_0-1-2_20260301100100000.parquet",
        "fileId": "f1-0",
        "prevCommit": "null",
    }
    commit = {
        "partitionToWriteStats": {"p=1": [stat]},
        "partitionToReplaceFileIds": {"p=1": ["f0-0"]},
        "extraMetadata": {"schema": "{}"},
        "operationType": "UPSERT",
    }
    inputs = st.one_of(damaged_json([commit]).map(json_bytes), damaged([json_bytes(commit)]))
    return Decoder(inputs, CommitMetadata.decode)


def hoodie_properties() -> Decoder:
    from tidegate.hudi.properties import TableProperties  # noqa: PLC0415

    text = (
        b"#Updated at 2026-03-01\nhoodie.table.name=orders\nhoodie.table.type=COPY_ON_WRITE\n"
        b"hoodie.table.version=6\nhoodie.timeline.layout.version=1\n"
        b"hoodie.table.partition.fields=day\\u0041\\\n  more\nhoodie.table.checksum=1\n"
    )
    return Decoder(damaged([text]), TableProperties.parse)


def acid_names() -> Decoder:
    from tidegate.hive.names import parse_name  # noqa: PLC0415

    seeds = ["base_0000005", "delta_0000001_0000003_0002", "delete_delta_1_3_v12", "base_5_v7"]
    return Decoder(damaged_text(seeds), parse_name)


def valid_write_ids() -> Decoder:
    from tidegate.hive.write_ids import ValidWriteIds  # noqa: PLC0415

    def decode(text: str) -> object:
        ids = ValidWriteIds.parse(text)
        answers = [ids.valid_in(1, 2**62), ids.aborted_in(0, 10), ids.opens_in(1, 2**62)]
        return [*answers, ids.has_open, ids.is_valid(5), str(ids)]

    seeds = [
        "sales.orders:5:9223372036854775807::",
        "sales.orders:99:4:4,7,9-9000000000:5-6",
        "sales.orders:9223372036854775806:1:1-9223372036854775806:",
    ]
    return Decoder(damaged_text(seeds), decode)


_TOML: Final = """
[kafka]
"bootstrap.servers" = "broker:9092"
[topics]
prefix = "tidegate"
partitions = 6
[warehouse]
roots = ["/lake", "s3://lake/tables"]
[[savepoints]]
tables = "lake.sales.*"
when = "every_commit"
lifetime = "forever"
[security]
require_signatures = false
[[security.keys]]
name = "ana"
public_key = "${HOME}"
roles = ["requester"]
not_after = 2027-12-31T00:00:00Z
[services.retries]
longest_wait_ms = 60000
"""


def settings_file() -> Decoder:
    from tidegate.service.settings import Settings  # noqa: PLC0415

    file = Path(tempfile.mkdtemp(prefix="fuzz-settings-")) / "tidegate.toml"
    deep = st.integers(1, 100_000).map(lambda depth: b"a = " + b"[" * depth)

    def decode(content: bytes) -> object:
        file.write_bytes(content)
        return repr(Settings.load(file))

    return Decoder(st.one_of(damaged([_TOML.encode()]), deep), decode, (ConfigError,))


def dead_letter_headers() -> Decoder:
    from tidegate.ops.dead_letters.dead_letter import (  # noqa: PLC0415
        audit_event,
        difference,
        read_dead_letter,
        redriven_message,
    )
    from tidegate.runtime.bus import Partition, Record  # noqa: PLC0415

    names = st.sampled_from(
        [
            "__connect.errors.topic",
            "__connect.errors.partition",
            "__connect.errors.offset",
            "__connect.errors.exception.message",
            "x-original-topic",
            "x-original-partition",
            "x-original-offset",
            "tidegate-dead-letter-id",
            "tidegate-service",
            "tidegate-origin-timestamp",
            "ce_id",
        ]
    )
    values = st.one_of(
        st.none(), st.binary(max_size=12), st.sampled_from([b"1", b"-1", b"9" * 5000, b"\xff"])
    )
    inputs = st.tuples(
        _KEYS, damaged(list(_examples().values())), st.lists(st.tuples(names, values), max_size=8)
    )
    wire = Wire()

    def decode(it: tuple[bytes | None, bytes, list[tuple[str, bytes | None]]]) -> object:
        key, value, headers = it
        record = Record(Partition("tidegate.dead-letters", 0), 7, key, value, headers, 1)
        listed = read_dead_letter(record, wire)
        redriven_message(listed, record)
        audit_event(listed, "ana", listed.at, wire)
        return listed.table, listed.origin_location, listed.event(wire), difference(listed, record)

    return Decoder(inputs, decode, ())


def event_json() -> Decoder:
    from tidegate.cli.options import read_model  # noqa: PLC0415

    file = Path(tempfile.mkdtemp(prefix="fuzz-json-")) / "event.json"
    seeds = [_example_json("VacuumFinished"), _example_json("RestoreRequested")]

    def decode(content: bytes) -> object:
        file.write_bytes(content)
        kind = VacuumFinished if b"own_lock_id" in content else RestoreRequested
        return read_model(kind, file)

    inputs = st.one_of(
        damaged_json(seeds).map(json_bytes), damaged([json_bytes(it) for it in seeds])
    )
    return Decoder(inputs, decode, (ConfigError,))


def stored_outcomes() -> Decoder:
    from tidegate.tables.claim import HUDI, AlreadyDone, Claim, Task  # noqa: PLC0415
    from tidegate.tables.refusal import Refused  # noqa: PLC0415
    from tidegate.tables.warehouse import Warehouse, WarehouseRoots  # noqa: PLC0415

    lake = Path(tempfile.mkdtemp(prefix="fuzz-lake-")).resolve()
    warehouse, table = Warehouse(WarehouseRoots.of(str(lake))), lake / "orders"
    file = table / HUDI / "tasks/7.done"
    file.parent.mkdir(parents=True)
    seed = [{"kind": "RestoreCompleted", "outcome": _example_json("RestoreCompleted")}]

    def decode(content: bytes) -> object:
        file.write_bytes(content)
        try:
            return Claim.take(warehouse, str(table), HUDI, Task(7, "task", "table", "cluster"))
        except AlreadyDone as done:
            return done.outcomes

    inputs = st.one_of(
        damaged_json([seed]).map(json_bytes),
        damaged([json_bytes(seed)]),
        any_json().map(json_bytes),
    )
    return Decoder(inputs, decode, (Refused,))


def planned_restore_json() -> Decoder:
    from tidegate.restores.plan import _read_summaries  # noqa: PLC0415

    seed = [["20260301100100000", "commit", 3, 4096, "abc"]]
    inputs = st.one_of(
        damaged_json([seed]).map(json_text), any_json().map(json_text), st.text(max_size=50)
    )
    return Decoder(inputs, _read_summaries, ())


def signatures() -> Decoder:
    from support.signing import entry, restore, signed  # noqa: PLC0415
    from support.signing import settings as deployment  # noqa: PLC0415
    from tidegate.runtime.authorization import Unauthorized  # noqa: PLC0415
    from tidegate.runtime.bus import Partition, Record  # noqa: PLC0415
    from tidegate.service.assembly import authorization  # noqa: PLC0415

    check = authorization(deployment(entry()), "memory")
    sent = signed(restore())
    token = dict(sent.headers)["ce_signature"] or b""

    def decode(content: bytes) -> object:
        headers = (("ce_signature", content),)
        record = Record(Partition(sent.topic, 0), 0, sent.key, sent.value, headers, 1)
        return check.check(restore(), record)

    return Decoder(damaged([token, token.replace(b".", b"..")]), decode, (Unauthorized,))


DECODERS: Final[Mapping[str, Callable[[], Decoder]]] = MappingProxyType(
    {
        decoder.__name__: decoder
        for decoder in (
            single_object,
            confluent_framing,
            header_framing,
            registry_schemas,
            timeline_names,
            hudi_avro,
            hudi_containers,
            hudi_json_commit,
            hoodie_properties,
            acid_names,
            valid_write_ids,
            settings_file,
            dead_letter_headers,
            event_json,
            stored_outcomes,
            planned_restore_json,
            signatures,
        )
    }
)


def _ends_the_process(_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _fills_the_memory(_: object) -> int:
    return len(bytearray(2 * MEMORY))


def _never_ends(_: object) -> None:
    until = time.thread_time() + SECONDS
    while time.thread_time() < until:
        pass


def _breaks(_: object) -> object:
    return {b"a": 1}[b"b"]


_ANYTHING: Final = st.just(b"the input")
BROKEN: Final[Mapping[str, Callable[[], Decoder]]] = MappingProxyType(
    {
        attack.__name__.removeprefix("_"): partial(Decoder, _ANYTHING, attack)
        for attack in (_ends_the_process, _fills_the_memory, _never_ends, _breaks)
    }
)
"""Decoders that are at fault, to see that a fault is seen."""


def run(name: str, examples: int, last: Path) -> int:
    """Try inputs on a decoder; give how many there were.

    Raises:
        Exception: what the decoder raised and does not document.
        AssertionError: an answer took too long.
    """
    decoder, count = {**DECODERS, **BROKEN}[name](), 0

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # to make a failing input smaller would take minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(decoder.inputs)
    def try_it(value: Any) -> None:  # noqa: ANN401 - any input
        nonlocal count
        count += 1
        last.write_bytes(value if isinstance(value, bytes) else repr(value).encode())
        began = time.thread_time()
        with suppress(*decoder.refuses):
            decoder.decode(value)
        assert time.thread_time() - began < SECONDS

    limit_memory()
    try_it()
    return count


def limit_memory() -> None:
    """Let this process have MEMORY bytes more than it has now."""
    text = Path("/proc/self/status").read_text("ascii")
    (size,) = (line.split()[1] for line in text.splitlines() if line.startswith("VmSize:"))
    limit = int(size) * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))  # noqa: T201 - for the parent
