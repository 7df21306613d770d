"""Batches without some of their records, as a cleaner leaves them.

Uses `read`. For others: `batch_rebuild`, `offset_map` (the latest offset of each key).
"""
