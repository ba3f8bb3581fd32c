"""The Hudi bridge: publishes CommitCompleted from timelines, for writers that can't do it."""
