"""The loop of a decider, and the state that it keeps per table."""
