"""Repair: messages that failed, and records that are to be read again."""
