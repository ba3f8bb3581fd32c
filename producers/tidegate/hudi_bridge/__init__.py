"""The Hudi bridge: a table's timeline says what its writer can't: CommitCompleted."""
