"""Compaction plans: the file groups that a pending compaction is going to rewrite."""

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
