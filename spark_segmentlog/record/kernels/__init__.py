"""Compiled loops over bytes: flat arrays in, a code out, with a plain twin each.

What must hold in every one of them: compiled code has no bounds checks of its own, so every read
comes after a comparison with the end of its record, batch or buffer, every loop ends for any bytes,
and every write comes after a comparison with the room that is left. A kernel raises nothing; it
answers with a code, and the caller asks the plain twin (`batch`, `legacy`) to word the error.
Several kernels may run at once: they share no state but their arguments, and hold no GIL.

Uses `layout` and `jit`. In their order: `checksum`, `headers` (the header table), `search` (for
entries among other bytes), `varints`, `records` (format 2), `messages` (formats 0 and 1), `output`
(Arrow's buffers), `decode`; `encode`, `filter` (which records stay), `producers` (who wrote what).
"""
