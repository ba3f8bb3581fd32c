"""From a record to an event, or to the dead-letter topic."""
