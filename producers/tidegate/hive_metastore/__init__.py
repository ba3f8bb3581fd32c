"""Read a Hive Metastore: locks, transactions, compactions. One call of `queue` changes it.

Needs `pip install 'tidegate[metastore]'`.
"""

from __future__ import annotations

from tidegate.hive_metastore.client import MetastoreClient
from tidegate.hive_metastore.settings import MetastoreSettings

__all__ = ["MetastoreClient", "MetastoreSettings"]
