"""The bus on Apache Kafka, through confluent-kafka."""
