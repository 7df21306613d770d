"""Compression: blocks to bytes and back, by bounded memory.

Uses `layout`. For others: `codecs` (the table, by number and name), `decompression_buffer` (a group
of ordinary blocks), `block_window` (a block larger than memory should hold), `codec` (the errors).
"""
