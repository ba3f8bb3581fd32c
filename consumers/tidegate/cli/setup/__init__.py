"""Set up: settings, topics, keys, services and the contract of the events."""
