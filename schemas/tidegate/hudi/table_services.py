"""What cleans and compactions declare: instants to retain, cleaned partitions, file groups."""

from __future__ import annotations

from tidegate.errors import FormatError
from tidegate.hudi import containers


def earliest_retained(completed: bytes) -> str:
    """A completed clean's earliest commit to retain; empty if its policy counts versions.

    Raises:
        FormatError: the content is not clean metadata.
    """
    bound = containers.decode(completed).get("earliestCommitToRetain")
    if not isinstance(bound, str):
        raise FormatError("not clean metadata: earliestCommitToRetain is missing")
    return bound


def earliest_to_retain(requested: bytes) -> str | None:
    """A clean plan's earliest instant to retain; None if its policy counts versions.

    Raises:
        FormatError: the content is not a clean plan.
    """
    record = containers.decode(requested)
    if "earliestInstantToRetain" not in record:
        raise FormatError("not a clean plan: earliestInstantToRetain is missing")
    instant = record["earliestInstantToRetain"]
    with containers.reading("clean plan"):
        return None if instant is None else str(instant["timestamp"])


def cleaned_partitions(completed: bytes) -> frozenset[str]:
    """The partitions from which a completed clean removed files.

    Raises:
        FormatError: the content is not clean metadata.
    """
    record = containers.decode(completed)
    with containers.reading("clean metadata"):
        return frozenset((record.get("partitionMetadata") or {}).keys())


def compacted_groups(requested: bytes) -> frozenset[tuple[str, str]]:
    """The file groups (partition, file id) of a compaction plan.

    Raises:
        FormatError: the content is not a compaction plan.
    """
    record = containers.decode(requested)
    with containers.reading("compaction plan"):
        return frozenset(
            (str(operation["partitionPath"]), str(operation["fileId"]))
            for operation in record["operations"] or ()
        )


def merged_files(requested: bytes) -> frozenset[tuple[str, str]]:
    """The files (partition, name) that a compaction merges: base files and their log files.

    Raises:
        FormatError: the content is not a compaction plan.
    """
    record = containers.decode(requested)
    with containers.reading("compaction plan"):
        return frozenset(
            (str(operation["partitionPath"]), str(path).rpartition("/")[2])
            for operation in record["operations"] or ()
            for path in (operation["dataFilePath"], *(operation["deltaFilePaths"] or ()))
            if path
        )
