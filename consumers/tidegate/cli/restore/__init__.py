"""Restore: savepoints, plans, and what writers and people publish."""
