"""What Tidegate brings along: a real Kafka broker and other JVM parts, started from their jars."""

from tidegate.embedded.bootstrap import bootstrap
from tidegate.embedded.broker import EmbeddedBroker
from tidegate.embedded.jars import cache_dir, resolve
from tidegate.jdk import Jdk, find_jdk

__all__ = ["EmbeddedBroker", "Jdk", "bootstrap", "cache_dir", "find_jdk", "resolve"]
