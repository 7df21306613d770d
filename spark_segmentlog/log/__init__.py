"""Log directories, partitions, segments and their indexes: files to offsets and back. Knows no Spark."""
