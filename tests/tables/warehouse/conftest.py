"""Every file opened here is closed again, after failures too."""

from support.descriptors import nothing_left_open

__all__ = ["nothing_left_open"]
