"""The rows of one partition, and the records of the changelog that they are rebuilt from."""
