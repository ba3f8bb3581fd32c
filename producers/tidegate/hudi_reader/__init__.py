"""Reading Hudi tables: properties, timeline, partitions and files. Nothing here changes one."""

from __future__ import annotations

from tidegate.hudi_reader.partitions import Partition, list_partitions
from tidegate.hudi_reader.table import HudiTable, NoSuchTable, load_table

__all__ = ["HudiTable", "NoSuchTable", "Partition", "list_partitions", "load_table"]
