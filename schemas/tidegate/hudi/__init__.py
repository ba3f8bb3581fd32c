"""File names and contents of a Hudi table's timeline, as values. Pure: nothing reads a disk."""
