"""Log directories, partitions, segments, indexes: files to offsets and back. Knows no Spark."""
