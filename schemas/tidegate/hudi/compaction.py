"""Compaction plans: the file groups that a compaction is going to rewrite, and its input files."""

from __future__ import annotations

from tidegate.hudi import containers


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
