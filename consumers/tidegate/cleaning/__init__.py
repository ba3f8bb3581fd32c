"""Cleaning of Hive ACID tables after a vacuum.

Hive calls such a vacuum a compaction: it has merged directories of row events into new ones. Delta
Lake's VACUUM deletes files; here, that is the step after the vacuum, the cleaning.

The coordinator releases a vacuum once no reader is left of what it replaced. The plan says which
directories are obsolete, or why none may be removed. The cleaner removes them.
"""
