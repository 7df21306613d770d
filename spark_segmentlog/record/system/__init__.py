"""The records of Kafka's own topics: their schemas, and what the bytes of one say."""
