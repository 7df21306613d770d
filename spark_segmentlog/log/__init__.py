"""Files and offsets: directories, partitions, segments, indexes, commits, upkeep.

Uses `record` for bytes; knows no options and no Spark. Its rooms, each using those before it: `io`,
`formats`, `segment`, `directory`, `transactions`, `partition`, `write`, `upkeep`.
"""
