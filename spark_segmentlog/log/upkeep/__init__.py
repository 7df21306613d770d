"""What is done to logs that are there: verify, recover, reindex, salvage, retain, compact.

Uses `write` for its locks and its ends of partitions. One module for each, and what they share in
`partitions` (which, under which lock) and `swap` (how files take the place of others).
"""
