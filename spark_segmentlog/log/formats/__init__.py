"""The small files beside a log: their bytes to values and back, without a policy.

Uses `io`. One module for each: checkpoints, offset, time and transaction indexes, producer
snapshots.
"""
