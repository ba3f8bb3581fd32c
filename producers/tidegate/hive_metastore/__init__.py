"""Read a Hive Metastore: locks, transactions, compactions; mark a compaction as cleaned.

Needs `pip install 'tidegate[metastore]'`.
"""

from __future__ import annotations

from tidegate.hive_metastore.client import MetastoreClient
from tidegate.hive_metastore.settings import MetastoreSettings

__all__ = ["MetastoreClient", "MetastoreSettings"]
