"""Savepoints: when one is due or may go (retention), its files (plan), writing and removing."""
