"""Compression: blocks to bytes and back, by bounded memory.

Uses `layout`. For others: `decompress`, `compress`, `block_stream` (a batch larger than memory
should hold).
"""
