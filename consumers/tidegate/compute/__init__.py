"""Run work on many items: on threads of this process or on Spark; find the Java it needs."""
