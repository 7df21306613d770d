"""Spark's DataSource V2 on top of the log. Parses no byte."""
