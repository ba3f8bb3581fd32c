"""The coordinator: decides over rows in SQLite, and remembers what it decides before it says it.

`store` has the rows and their changelog, `loop` reads events, decides and publishes. The other
modules are the subjects: readers, holds, quarantines, alarms.
"""
