"""Real parts on one machine: an embedded Kafka broker, and the demo that runs on it."""
