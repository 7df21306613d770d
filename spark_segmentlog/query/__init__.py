"""What options ask for: which partitions, from where to where, in which parts. Knows no Spark."""
