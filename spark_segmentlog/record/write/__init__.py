"""From Arrow to bytes: partitions by key, then record batches.

Uses `kernels` and `codec`. For others: `partitioner`, `encoder` (`RecordBatchEncoder`).
"""
