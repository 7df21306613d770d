"""Lets Spark find ``format("segmentlog")``: it looks into every top-level ``pyspark_*`` module."""

from spark_segmentlog.spark.datasource import SegmentLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
