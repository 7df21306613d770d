"""Read and write Kafka's on-disk log with Spark, without a broker."""
