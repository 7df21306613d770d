"""The records of Kafka's own topics: their schemas, and what the bytes of one say.

Uses `plain`. For others: `message_reader` (any message by its schema), `records` (which message a
record of a topic is), `schemas` (the table of messages, made of Kafka's specifications).
"""
