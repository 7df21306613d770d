"""Compiled loops over bytes; each bounds every read and every loop.

Uses `layout` and `jit`. One module for each: `decode` (headers and records), `encode`, `filter`
(which records stay), `producers` (who wrote what).
"""
