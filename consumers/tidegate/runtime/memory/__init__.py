"""The bus in memory: for tests and for trying a policy out."""
