from __future__ import annotations

import io
import json

import fastavro
import pytest

from tidegate.errors import FormatError
from tidegate.hudi import containers
from tidegate.hudi.commit import CommitMetadata, WriteStat
from tidegate.hudi.rollback import (
    InstantInfo,
    RestoreMetadata,
    RestorePlanFile,
    RollbackMetadata,
    rollback_target,
)
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.table_services import earliest_retained, earliest_to_retain

SAVEPOINT = SavepointMetadata(
    "ada",
    1772359200123,
    "before the load",
    {"p0": ("a_0-1-2_20260301100100000.parquet",), "p1": ()},
)
ROLLBACK = RollbackMetadata(
    "20260301110000000",
    7,
    InstantInfo("20260301100200000", "commit"),
    {"p0": ("/lake/orders/p0/a.parquet",), "p1": ("/lake/orders/p1/b.parquet",)},
)


def plain(content: bytes) -> object:
    return list(fastavro.reader(io.BytesIO(content)))


def test_a_savepoint_is_written_as_hudi_writes_it() -> None:
    assert plain(SAVEPOINT.encode()) == [
        {
            "savepointedBy": "ada",
            "savepointedAt": 1772359200123,
            "comments": "before the load",
            "partitionMetadata": {
                "p0": {
                    "partitionPath": "p0",
                    "savepointDataFile": ["a_0-1-2_20260301100100000.parquet"],
                },
                "p1": {"partitionPath": "p1", "savepointDataFile": []},
            },
            "version": 1,
        }
    ]
    assert SavepointMetadata.decode(SAVEPOINT.encode()) == SAVEPOINT
    assert SAVEPOINT.file_count == 1


def test_a_savepoint_with_a_damaged_byte_is_not_taken_for_our_own() -> None:
    """The next savepoint is derived from it: Hudi would clean the file of a damaged name."""
    own = SAVEPOINT.encode({"tidegate.view": "eJw="})
    assert SavepointMetadata.decode_own(own) == (SAVEPOINT, {"tidegate.view": "eJw="})

    for at, byte in enumerate(own):
        damaged = own[:at] + bytes([byte ^ 1]) + own[at + 1 :]
        with pytest.raises(FormatError):
            SavepointMetadata.decode_own(damaged)
        with pytest.raises(FormatError):
            SavepointMetadata.decode_own(own[:at])


def test_a_restore_totals_over_all_its_instants() -> None:
    other = RollbackMetadata("20260301110001000", 5, InstantInfo("20260301100300000", "commit"), {})
    metadata = RestoreMetadata("20260301105900000", 99, (other, ROLLBACK))

    (record,) = fastavro.reader(io.BytesIO(metadata.encode()))

    assert isinstance(record, dict)
    assert record["startRestoreTime"] == "20260301105900000"
    assert record["instantsToRollback"] == ["20260301100300000", "20260301100200000"]
    assert record["restoreInstantInfo"] == [
        {"commitTime": "20260301100300000", "action": "commit"},
        {"commitTime": "20260301100200000", "action": "commit"},
    ]
    assert record["hoodieRestoreMetadata"]["20260301100200000"] == [
        {
            "startRollbackTime": "20260301110000000",
            "timeTakenInMillis": 7,
            "totalFilesDeleted": 2,
            "commitsRollback": ["20260301100200000"],
            "partitionMetadata": {
                "p0": {
                    "partitionPath": "p0",
                    "successDeleteFiles": ["/lake/orders/p0/a.parquet"],
                    "failedDeleteFiles": [],
                    "rollbackLogFiles": {},
                    "logFilesFromFailedCommit": {},
                },
                "p1": {
                    "partitionPath": "p1",
                    "successDeleteFiles": ["/lake/orders/p1/b.parquet"],
                    "failedDeleteFiles": [],
                    "rollbackLogFiles": {},
                    "logFilesFromFailedCommit": {},
                },
            },
            "version": 1,
            "instantsRollback": [{"commitTime": "20260301100200000", "action": "commit"}],
        }
    ]
    assert metadata.total == 2
    assert RestoreMetadata.decode(metadata.encode()) == metadata


def test_a_restore_plan_says_its_savepoint_and_keeps_notes_where_hudi_does_not_look() -> None:
    plan = RestorePlanFile(
        (InstantInfo("20260301100300000", "commit"),), "20260301100100000", {"tidegate.plan": "x"}
    )

    assert plain(plan.encode()) == [
        {
            "instantsToRollback": [{"commitTime": "20260301100300000", "action": "commit"}],
            "version": 2,
            "savepointToRestoreTimestamp": "20260301100100000",
        }
    ]
    assert RestorePlanFile.decode(plan.encode()) == plan


@pytest.mark.parametrize(
    "name",
    [
        "HoodieCommitMetadata",
        "HoodieReplaceCommitMetadata",
        "HoodieRestoreMetadata",
        "HoodieRestorePlan",
        "HoodieRollbackMetadata",
        "HoodieRollbackPlan",
        "HoodieSavepointMetadata",
    ],
)
def test_java_reads_strings_as_strings(name: str) -> None:
    text = json.dumps(containers.schema(name))

    assert '"avro.java.string": "String"' in text
    assert text.count('"type": "string"') == text.count(
        '"type": "string", "avro.java.string": "String"'
    )


def test_the_header_holds_the_schema_as_it_is_and_no_compression() -> None:
    header = fastavro.reader(io.BytesIO(SAVEPOINT.encode())).metadata

    assert json.loads(header["avro.schema"]) == containers.schema("HoodieSavepointMetadata")
    assert header["avro.codec"] == "null"


def test_the_same_record_gives_the_same_bytes() -> None:
    assert SAVEPOINT.encode() == SAVEPOINT.encode()


COMMIT = {
    "partitionToWriteStats": {
        "p0": [
            {"fileId": "a", "path": "p0/a.parquet", "prevCommit": "null", "fileSizeInBytes": 5},
            {"fileId": "", "path": None, "prevCommit": "null"},
        ],
        "p1": [{"fileId": "b", "path": "p1/b.parquet", "prevCommit": "20260301100000000"}],
    },
    "operationType": "UPSERT",
}
REPLACE = {**COMMIT, "partitionToReplaceFileIds": {"p0": ["old"]}}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(json.dumps(REPLACE).encode(), id="JSON, up to table version 6"),
        pytest.param(
            containers.encode("HoodieReplaceCommitMetadata", REPLACE), id="Avro, from version 8 on"
        ),
    ],
)
def test_commit_metadata_is_the_same_in_json_and_avro(content: bytes) -> None:
    assert CommitMetadata.decode(content) == CommitMetadata(
        writes=(
            WriteStat("p0", "a", "p0/a.parquet", None, 5),
            WriteStat("p1", "b", "p1/b.parquet", "20260301100000000", 0),
        ),
        replaced={"p0": ("old",)},
        operation="UPSERT",
        named=frozenset({"p0", "p1"}),
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"Obj\x01", b"Obj\x01\x00garbage"])
def test_commit_metadata_that_is_neither_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError):
        CommitMetadata.decode(content)


@pytest.mark.parametrize(
    "decode",
    [SavepointMetadata.decode, rollback_target, RestorePlanFile.decode, RestoreMetadata.decode],
)
def test_a_record_of_another_kind_is_refused(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(FormatError):
        decode(containers.encode("HoodieCommitMetadata", {"version": 1}))
    with pytest.raises(FormatError):
        decode(b"")


def clean_file(**record: object) -> bytes:
    instant = {
        "type": "record",
        "name": "HoodieActionInstant",
        "fields": [{"name": "timestamp", "type": "string"}],
    }
    kinds = {"earliestCommitToRetain": "string", "earliestInstantToRetain": ["null", instant]}
    fields = [{"name": name, "type": kinds[name]} for name in record]
    buffer = io.BytesIO()
    fastavro.writer(buffer, {"type": "record", "name": "Clean", "fields": fields}, [record])
    return buffer.getvalue()


def test_a_clean_says_from_where_on_it_keeps_files() -> None:
    bound = "20260301100100000"

    assert earliest_retained(clean_file(earliestCommitToRetain=bound)) == bound
    assert earliest_retained(clean_file(earliestCommitToRetain="")) == ""
    assert earliest_to_retain(clean_file(earliestInstantToRetain={"timestamp": bound})) == bound
    assert earliest_to_retain(clean_file(earliestInstantToRetain=None)) is None


def test_what_is_not_a_clean_is_refused() -> None:
    with pytest.raises(FormatError):
        earliest_retained(clean_file(earliestInstantToRetain=None))
    with pytest.raises(FormatError):
        earliest_to_retain(clean_file(earliestCommitToRetain=""))
