"""Clean: pause the cleaning of a table, and undo a cleaning."""
