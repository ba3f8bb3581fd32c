"""The workers' loop, the input of every service, and the bus on Kafka."""
