"""Bytes and descriptors: reading, changing and locking files. Decides nothing.

Uses nothing of ours but errors. For others: `reading` (`LogFile`, `Storage`, `LOCAL`), `remote`
(`resolve_storage`), `storage_options`, `files` (every change of a disk), `lock`, `signature`,
`threads`.
"""
