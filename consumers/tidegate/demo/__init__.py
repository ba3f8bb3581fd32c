"""The whole story on real parts, in one terminal: `tidegate demo` (see `playing.py`)."""
