"""Read Hudi tables: properties, timeline, partitions and files. Nothing here changes a table."""

from __future__ import annotations

from tidegate.hudi_reader.commits import commit_of, completion_of
from tidegate.hudi_reader.partitions import PartitionFiles, list_partitions, read_partitions
from tidegate.hudi_reader.slices import slice_rules, with_merged
from tidegate.hudi_reader.table import HudiTable, NoSuchTable, load_table

__all__ = [
    "HudiTable",
    "NoSuchTable",
    "PartitionFiles",
    "commit_of",
    "completion_of",
    "list_partitions",
    "load_table",
    "read_partitions",
    "slice_rules",
    "with_merged",
]
