"""The loop of an executor: commands in, outcomes out, a table's commands in order."""
