"""A real Kafka broker on this machine, started from its jars without installation."""

from tidegate.embedded.broker import EmbeddedBroker

__all__ = ["EmbeddedBroker"]
