"""The bridges as processes: they publish for systems that can't, Hive's Metastore and Hudi."""
