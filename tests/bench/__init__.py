"""Benchmarks as checks: each prints a ratio beside its bound. ``python -m tests.bench``."""
