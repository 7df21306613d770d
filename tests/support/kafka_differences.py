"""What differs from Spark's Kafka source and sink, and is meant to.

The documentation's table is written from this list, and `make interop` shows each difference beside
a broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the Kafka source and this library do differently, in words."""

    what: str
    theirs: str
    ours: str


DIFFERENCES: Final = {
    "no selection": Difference(
        "none of `subscribe`, `subscribePattern`, `assign`",
        "refused",
        "every topic but those named `__*`",
    ),
    "internal topic": Difference(
        "`subscribe` or `assign` of a topic of the broker's own", "no rows", "its records"
    ),
    "unknown option": Difference(
        "an option that does not exist", "taken", "refused; the error names the nearest one"
    ),
    "absent partition": Difference(
        "`assign` of a partition that is not there", "no rows", "`UnknownTopicOrPartitionError`"
    ),
    "nothing assigned": Difference("`assign` of `{}`", "no rows", "refused"),
    "start past the end": Difference(
        "a batch starts past the end of the log",
        "refused, whatever `failOnDataLoss` says",
        "data loss: refused, or with `failOnDataLoss=false` no rows and a warning",
    ),
    "end above the stable offset": Difference(
        "a batch with `read_committed` ends above the last stable offset",
        "data loss, after `kafkaConsumer.pollTimeoutMs`",
        "stops at the last stable offset",
    ),
    "schema": Difference(
        "a schema that the user gives", "refused", "holds, and saves decoding the other columns"
    ),
    "second use": Difference(
        "a `load()` or a view that is used again",
        "has what was written meanwhile",
        "ends where it ended at its first use, since Spark keeps the plan of a Python source",
    ),
    "catalog table": Difference(
        "`CREATE TABLE ... USING`",
        "a table",
        "refused, since Spark keeps its options from Python sources; "
        "`CREATE TEMPORARY VIEW ... USING` works",
    ),
    "times of the protocol": Difference(
        "a timestamp below -2",
        "what it means in the broker's protocol (-3: the largest timestamp), or refused",
        "refused",
    ),
    "records of a task": Difference(
        "`maxRecordsPerPartition` in a batch with no more `minPartitions` than partitions",
        "no effect",
        "holds",
    ),
    "empty ranges": Difference(
        "a partition of which nothing is to be read", "a task without rows", "no task"
    ),
    "case of a level": Difference("`kafka.isolation.level` in capitals", "refused", "taken"),
    "space in a number": Difference(
        "white space around a number, `true` or `false`", "refused", "taken"
    ),
    "ending stream": Difference(
        "`endingOffsets` and the like in a stream", "refused", "the stream stops advancing there"
    ),
    "first micro-batch": Difference(
        "the first micro-batch of a new stream", "has rows", "is empty and fixes the start"
    ),
    "continuous trigger": Difference(
        "`trigger(continuous=...)`", "runs", "refused by Spark, as of every Python source"
    ),
    "update mode": Difference(
        '`outputMode("update")` of the sink',
        "runs",
        "refused by Spark, as of every Python sink; `foreachBatch` does it",
    ),
    "metrics": Difference(
        "`metrics` of the source in a stream's progress",
        "offsets behind the latest",
        "none; `spark_segmentlog.lag(query.lastProgress)` tells them",
    ),
    "no mode": Difference(
        "a batch write without a `mode`",
        "appends",
        "refused by Spark, which wants a Python sink to be told",
    ),
    "overwrite": Difference(
        '`mode("overwrite")`', "refused", "replaces the rows of the topics written"
    ),
    "timestamps": Difference(
        "a column `timestamp` in rows that are written", "left out", "is the time of the records"
    ),
    "unknown column": Difference(
        "rows with a column that no record has", "left out", "refused before anything is written"
    ),
    "new topic": Difference(
        "rows of a topic that does not exist",
        "as the broker's `auto.create.topics.enable` says",
        "the topic is made, with `num.partitions` or as many as the rows name",
    ),
    "text after JSON": Difference(
        "offsets as fractions, or text after the JSON", "taken", "refused"
    ),
}
