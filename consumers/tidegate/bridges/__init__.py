"""Processes that publish on behalf of systems which can't: a Hive Metastore, writers of Hudi."""
