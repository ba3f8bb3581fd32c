"""From a Hive Metastore to events: vacuums with their holds, and the end of every hold.

A vacuum, here, is what Hive calls a compaction. Everything that the bridge publishes stays true: a
lock that has ended has ended for good. So two bridges at once do no harm, and one that was paused
publishes nothing wrong when it goes on; that only one of them works saves the Metastore's load.
"""
