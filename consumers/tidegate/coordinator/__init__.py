"""The coordinator: decides from rows in SQLite, and publishes a decision once it is written.

`loop` reads events, decides and publishes; `rows` has the rows and the records of their changelog.
The subjects are `readers`, `holds`, `alarms`, `requests`, `savepoints` and `tasks`.
"""
