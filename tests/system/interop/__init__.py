"""Tests that hold the library against a real Kafka broker."""
