"""What a log directory (one of ``log.dirs``) says of itself and of the folders in it.

Uses `segment` for the cluster's metadata log. For others: `paths` (`PathResolver`), `listing`
(`list_partition`), `state` (checkpoints and marks), `open_commit` (commits that are
open), `versions` (those of before).
"""
