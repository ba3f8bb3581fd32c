"""A real Kafka broker and other JVM programs, started from their jars without installation."""

from tidegate.compute.java import find_java
from tidegate.local.embedded.broker import EmbeddedBroker, bootstrap
from tidegate.local.embedded.jars import cache_dir, resolve

__all__ = ["EmbeddedBroker", "bootstrap", "cache_dir", "find_java", "resolve"]
