"""From a Hive Metastore to events: vacuums with their holds, and the end of every hold.

Vacuum is the events' word for a Hive compaction. Every event that the bridge publishes stays true,
because a lock that has ended never comes back. So two bridges may run at once, and a bridge that
was paused publishes nothing wrong when it resumes. Only one is active, to spare the Metastore load.
"""
