"""The coordinator: decides from rows in SQLite, and publishes a decision once it is written.

`store` has the rows and their changelog; `loop` reads events, decides and publishes. The subjects
are `readers`, `holds`, `alarms`, `requests`, `savepoints` and `tasks`.
"""
