"""Bytes and columns: batches, messages, codecs, compiled kernels with a plain twin each.

Knows no files. Its rooms, each using those before it: `codec`, `plain`, `kernels`, then `read`,
`write` and `compact`.
"""
