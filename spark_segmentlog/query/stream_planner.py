"""Micro-batches keyed by offset: where the next one ends, and what its tasks read.

A stream's offset is Kafka's JSON, the next offset of every partition. Spark keeps it and hands it
back; nothing else lasts from one run of a query to the next. A reader lives in a process of its own
beside the driver, and is asked for the next end at every trigger: it watches the log, so that a
trigger with nothing new costs a few stats.

Spark asks for the initial offset of a new query twice, and again after a crash in its first
micro-batch; what was appended in between would be skipped. So the first end of a new query is its
start: micro-batch 0 is empty, and the checkpoint then holds where the query began.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_watch import LogWatch, WatchedPartitionLog
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.query import offsets as kafka_offsets
from spark_segmentlog.query import planning, stream_planning
from spark_segmentlog.query.admission import AdmissionLimits, TriggerDelay, count_new_offsets
from spark_segmentlog.query.byte_admission import Logs, admit
from spark_segmentlog.query.log_bounds import LogBounds
from spark_segmentlog.query.options import warn_ignored
from spark_segmentlog.query.read_options import ReadOptions, TopicSelection
from spark_segmentlog.query.split_reader import Split
from spark_segmentlog.query.stream_endings import StreamEndings
from spark_segmentlog.query.stream_planning import (
    Advance,
    DataLoss,
    Offsets,
    PartitionView,
    advance,
    plan_ranges,
)
from spark_segmentlog.query.stream_splits import cut_into_tasks

GONE_ATTEMPTS: Final = 3
GONE_PAUSE_SECONDS: Final = 0.1
MOVED_ATTEMPTS: Final = 10
MAX_WARNINGS_KEPT: Final = 1000

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class StreamPlanner:
    """Decides, at every trigger of one query, how far to go; lives as long as the query runs.

    Parameters
    ----------
    knows_starts : bool
        Whether Spark tells where each micro-batch starts. Where it does not, it asks for the first
        end of a new query before its start, and nothing tells a new query from one that goes on.
    clock_ms : callable, optional
        Milliseconds that only grow, for ``maxTriggerDelay``.

    Attributes
    ----------
    reported_offset : mapping of partition to offset, or None
        The latest offsets, as of the last look at the log.
    """

    def __init__(
        self,
        options: ReadOptions,
        *,
        knows_starts: bool = True,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        warn_ignored(options)
        self._options = options
        self._watch = LogWatch(
            options.paths,
            choose=self._choose,
            skip_corrupt=options.skips_corrupt,
            check_crcs=options.check_crcs,
            remote=options.remote,
            topics=options.selection.named_topics,
        )
        self.limits = AdmissionLimits(
            max_offsets=options.max_offsets_per_trigger,
            max_bytes=options.max_bytes_per_trigger,
            min_offsets=options.min_offsets_per_trigger,
            max_delay_ms=options.max_trigger_delay_ms,
        )
        self._delay = TriggerDelay(clock_ms)
        self._knows_starts = knows_starts
        self._initial: Offsets | None = None
        self._is_new_query = False
        self._has_planned = False
        self._last_end: Offsets | None = None
        self._target: Offsets | None = None
        self._topic_ids: dict[TopicPartition, str | None] = {}
        self._made_again: set[TopicPartition] = set()
        self._endings = StreamEndings(options.ending)
        self._gone: set[TopicPartition] = set()
        self._warned: set[str] = set()
        self.reported_offset: Offsets | None = None

    # What Spark asks

    def initial_offset(self) -> Offsets:
        """Fix where a new query starts, once.

        Raises
        ------
        OptionValueError, UnknownTopicOrPartitionError
            The options name other partitions than there are, or a start above its end.
        DataLossError
            A starting offset lies outside of the log.
        """
        if self._initial is None:
            self._initial = _while_files_move(self._find_initial)
            # After a crash in micro-batch 0 Spark plans it again before it asks for the start.
            self._is_new_query = self._knows_starts and not self._has_planned
        return self._initial

    def prepare_for_available_now(self) -> None:
        """Fix what this run of the query may reach at most."""
        _, views = self._look(frozenset())
        self._target = {topic_partition: view.end_offset for topic_partition, view in views.items()}

    def latest_offset(self, start: Offsets | None, limits: AdmissionLimits | None) -> Offsets:
        """Find the end of the micro-batch that starts at `start`.

        Parameters
        ----------
        start : mapping of partition to offset, optional
            Where the last one ended, or a new query starts, where not given.
        limits : AdmissionLimits or None
            How much it may take; None for all there is.

        Raises
        ------
        DataLossError
            Rows that were promised are gone, and ``failOnDataLoss`` is true. Nothing was planned,
            so the query can be started again with ``failOnDataLoss`` false.
        """
        if start is None:
            start = self._last_end
        if start is None and not self._knows_starts:
            _, views = self._look(frozenset())
            return self._remember(
                {topic_partition: view.end_offset for topic_partition, view in views.items()}, views
            )
        if start is None:
            start = self.initial_offset()
        logs, views = self._look(start.keys())
        self._report_latest(views)
        if self._is_new_query:
            self._is_new_query = False
            return self._remember(start, views)
        found = advance(start, views, self._topic_ids, self._made_again)
        self._report_losses(found.losses)
        end = self._within_target(start, found, views)
        if not found.restarted and limits is not None:
            if self._holds_back(found.begin, end, limits):
                return start
            end = admit(found.begin, end, logs, limits)
        self._made_again -= found.restarted
        self._endings.forget(found.restarted)
        return self._remember(end, views)

    def plan(self, start: Offsets, end: Offsets) -> list[Split]:
        """Plan the tasks of one micro-batch, be it new or a replay.

        Raises
        ------
        DataLossError
            Part of it is gone, and ``failOnDataLoss`` is true.
        """
        self._has_planned = True
        self._is_new_query = False
        wanted = frozenset(
            topic_partition
            for topic_partition, offset in end.items()
            if offset > start.get(topic_partition, -1)
        )
        if not wanted:
            return []
        logs, views = self._look(wanted)
        plan = plan_ranges(start, end, views, self._topic_ids)
        self._report_losses(plan.losses)
        self._made_again |= plan.restarted
        return cut_into_tasks(plan.ranges, logs, self._options)

    # What there is to read

    def _find_initial(self) -> Offsets:
        options = self._options
        found = self._watch.refresh()
        chosen = planning.choose_partitions(options.selection, found, _named(found))
        logs = {topic_partition: found[topic_partition] for topic_partition in chosen}
        kafka_offsets.check_assigned(options.starting, logs, position="start")
        kafka_offsets.check_assigned(options.ending, logs, position="end")
        return {
            topic_partition: self._starting_offset(topic_partition, log)
            for topic_partition, log in logs.items()
        }

    def _look(
        self, expected: Collection[TopicPartition]
    ) -> tuple[Logs, dict[TopicPartition, PartitionView]]:
        """Look at the log; more than once if a partition is missing, since a broker may move it."""
        for attempt in range(GONE_ATTEMPTS):
            logs, views = _while_files_move(self._look_once)
            gone = set(expected) - logs.keys()
            if gone <= self._gone or attempt == GONE_ATTEMPTS - 1:
                break
            time.sleep(GONE_PAUSE_SECONDS)
        self._gone = gone
        return logs, views

    def _look_once(self) -> tuple[Logs, dict[TopicPartition, PartitionView]]:
        found = self._watch.refresh()
        logs = {topic_partition: found[topic_partition] for topic_partition in self._choose(found)}
        return logs, {
            topic_partition: self._view(topic_partition, log)
            for topic_partition, log in logs.items()
        }

    def _choose(self, found: Mapping[TopicPartition, PartitionLog]) -> list[TopicPartition]:
        selection = _without_unknown(self._options.selection, found)
        return planning.choose_partitions(selection, found, _named(found))

    def _view(self, topic_partition: TopicPartition, log: WatchedPartitionLog) -> PartitionView:
        end = log.log_end_offset
        if self._options.is_read_committed:
            end = min(end, log.last_stable_offset())
        if self._options.until_high_watermark:
            # Of a young partition, which no checkpoint names yet, nothing is known to have reached
            # all replicas.
            mark = log.high_watermark
            end = log.log_start_offset if mark is None else min(end, mark)
        ending = self._endings.find(topic_partition, log)
        if ending is not None:
            end = min(end, ending)
        return PartitionView(
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            end_offset=end,
            topic_id=log.topic_id,
        )

    def _starting_offset(self, topic_partition: TopicPartition, log: WatchedPartitionLog) -> int:
        bounds = LogBounds(log, self._options)
        if self._options.until_high_watermark and log.state.high_watermarks is None:
            bounds.latest_offset()
        wanted = kafka_offsets.resolve_start(
            self._options.starting,
            topic_partition,
            bounds,
            self._options.missing_timestamp,
        )
        first, last = log.log_start_offset, log.log_end_offset
        offset = min(max(wanted, first), last)
        if offset != wanted:
            message = (
                f"Starting offset for {topic_partition} was {wanted} but the log holds "
                f"[{first}, {last}){kafka_offsets.remote_text(bounds)}: reset to {offset}."
            )
            self._report_losses([DataLoss(stream_planning.START_OFFSET_RESET, message)])
        ending = self._endings.find(topic_partition, log)
        if ending is not None:
            kafka_offsets.check_resolved(topic_partition, offset, ending)
        return offset

    # How far to go

    def _within_target(
        self, start: Offsets, found: Advance, views: Mapping[TopicPartition, PartitionView]
    ) -> Offsets:
        """Keep to the end that was fixed at the start of an AvailableNow run."""
        target = self._target
        if target is None:
            return found.end
        end = {}
        for topic_partition, offset in found.end.items():
            if topic_partition in found.restarted:
                target[topic_partition] = views[topic_partition].end_offset
                end[topic_partition] = offset
            elif topic_partition in target:
                end[topic_partition] = max(
                    found.begin[topic_partition], min(offset, target[topic_partition])
                )
            elif topic_partition in start:
                end[topic_partition] = found.begin[topic_partition]
        return end

    def _holds_back(self, begin: Offsets, end: Offsets, limits: AdmissionLimits) -> bool:
        """Tell whether ``minOffsetsPerTrigger`` says to wait; an AvailableNow run never waits."""
        if self._target is not None:
            return False
        return self._delay.holds_back(count_new_offsets(begin, end), limits)

    def _remember(self, end: Offsets, views: Mapping[TopicPartition, PartitionView]) -> Offsets:
        gone = {
            topic_partition: topic_id
            for topic_partition, topic_id in self._topic_ids.items()
            if topic_partition in end
        }
        self._topic_ids = gone | {
            topic_partition: view.topic_id for topic_partition, view in views.items()
        }
        self._endings.keep(views)
        self._last_end = end
        return end

    # Telling

    def _report_latest(self, views: Mapping[TopicPartition, PartitionView]) -> None:
        if self._target is None:
            self.reported_offset = {
                topic_partition: view.end_offset for topic_partition, view in views.items()
            }
        else:
            self.reported_offset = dict(self._target)

    def _report_losses(self, losses: Iterable[DataLoss]) -> None:
        """Fail with what is lost, or warn of it once."""
        for loss in losses:
            if self._options.fail_on_data_loss:
                raise kafka_offsets.data_loss(loss.condition, loss.message, query="streaming query")
            if loss.message not in self._warned:
                if len(self._warned) >= MAX_WARNINGS_KEPT:
                    self._warned.clear()
                self._warned.add(loss.message)
                _log.warning("[%s] %s", loss.condition, loss.message)


def _while_files_move(look: Callable[[], _T]) -> _T:
    """Look again while files go away under the look."""
    for _ in range(MOVED_ATTEMPTS - 1):
        try:
            return look()
        except FileNotFoundError as error:
            if isinstance(error, SegmentLogError):
                raise
    return look()


def _named(found: Mapping[TopicPartition, PartitionLog]) -> set[TopicPartition]:
    """Give the partitions that were asked for by their own path."""
    return {topic_partition for topic_partition, log in found.items() if log.is_named}


def _without_unknown(
    selection: TopicSelection, found: Collection[TopicPartition]
) -> TopicSelection:
    """Leave out what the options name and is not there: of a query that runs, it may be gone."""
    topics = {topic_partition.topic for topic_partition in found}
    subscribe, assign = selection.subscribe, selection.assign
    return replace(
        selection,
        subscribe=None
        if subscribe is None
        else tuple(topic_partition for topic_partition in subscribe if topic_partition in topics),
        assign=None
        if assign is None
        else tuple(topic_partition for topic_partition in assign if topic_partition in found),
    )
