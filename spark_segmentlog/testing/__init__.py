"""Byte-level builders, hypothesis strategies and a list-backed model, for tests over Kafka logs."""
