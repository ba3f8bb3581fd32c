"""Hive ACID tables on disk: directory names, snapshots of write ids, obsolete directories.

Mirrors Hive's `AcidUtils` (4.0 and 4.1). As in Hive, a vacuum of Tidegate's events is called a
compaction here.
"""
