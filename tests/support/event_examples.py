"""The examples of events in `schemas/tidegate/events/examples`."""

from __future__ import annotations

from importlib.resources import files


def example_of(name: str) -> bytes:
    """The bytes of an event's example."""
    file = files("tidegate.events").joinpath(f"examples/{name}.bin")
    if not file.is_file():
        raise FileNotFoundError(f"{name} has no example: run `make docs`")
    return file.read_bytes()
