"""What Tidegate brings along: a real Kafka broker and other JVM parts, started from their jars."""

from tidegate.embedded.jars import cache_dir, resolve
from tidegate.embedded.jdk import Jdk, find_jdk

__all__ = ["Jdk", "cache_dir", "find_jdk", "resolve"]
