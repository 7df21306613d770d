"""The formats in plain Python: slow, in words, and what the kernels are compared with.

Uses `codec`. For others: `batch` (format 2), `legacy` (0 and 1), `control`
(markers), `encode`, `varint`, `crc`.
"""
