"""Remote tiers (KIP-405): the segments of a log that a broker has copied to a store of objects."""
