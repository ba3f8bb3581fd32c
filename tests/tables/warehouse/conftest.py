"""What is read, listed, moved or removed here is closed again, whatever came of it."""

from support.descriptors import nothing_left_open

__all__ = ["nothing_left_open"]
