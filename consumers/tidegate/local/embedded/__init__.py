"""A real Kafka broker and other JVM programs, started from their jars without installation."""

from tidegate.compute.java import Jdk, find_jdk
from tidegate.local.embedded.broker import EmbeddedBroker, bootstrap
from tidegate.local.embedded.jars import cache_dir, resolve

__all__ = ["EmbeddedBroker", "Jdk", "bootstrap", "cache_dir", "find_jdk", "resolve"]
