"""Read Hudi tables: properties, timeline, partitions and files. Nothing here changes a table."""
