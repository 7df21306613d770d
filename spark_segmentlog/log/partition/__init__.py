"""A partition as one log: its segments, bounds and lookups, and all partitions of a directory.

Uses `directory` and `transactions`. For others: `partition_log` (`PartitionLog`), `scan` (rows),
`log_manager` (`LogManager`), `log_watch` (logs that grow while they are read).
"""
