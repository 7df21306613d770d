"""Remote tiers (KIP-405): the segments of a log that a broker has copied to a store of objects.

Uses `directory` for the local part and `record.system` for the metadata topic. For others: `tier`
(which remote logs there are), `tiered_storage` (both tiers as one folder), `stores` (layouts).
"""
