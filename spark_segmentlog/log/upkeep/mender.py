"""Mending the segments of one partition: what is cut, and whose indexes are made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.io import files
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.producer_replay import ProducerReplay
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep.cut import (
    cut_off,
    cut_out,
    delete_segments,
    end_snapshots,
    take_mark_away,
)
from spark_segmentlog.log.upkeep.index_check import check_indexes
from spark_segmentlog.log.upkeep.rebuild import rebuild_indexes
from spark_segmentlog.log.upkeep.recovery_action import (
    RecoveryAction,
    cut_action,
    cut_out_action,
    delete_action,
    rebuild_action,
)
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey, survey_segment
from spark_segmentlog.log.upkeep.swap import mark_files_after_deleted
from spark_segmentlog.log.upkeep.verification import known_aborts


@dataclass(frozen=True, slots=True, kw_only=True)
class Mender:
    """Mends partitions, or only tells what it would do; its fields are those of `recover`."""

    truncate: bool = False
    delete_later: bool = False
    cut_bad_batches: bool = False
    dry_run: bool = False
    index_interval_bytes: int

    def reindex(self, log: PartitionLog) -> Iterator[RecoveryAction]:
        """Make the indexes of one partition again."""
        producers = ProducerReplay(log)
        for segment in log.segments:
            survey = survey_segment(segment)
            known = known_aborts(survey, producers)
            yield self._rebuilt(survey, known.aborted)
            if survey.stop is not None:
                producers.lose_track(segment)

    def mend(self, log: PartitionLog) -> Iterator[RecoveryAction]:
        """Mend one partition, up to where bad bytes are cut off.

        Zeros to the end of a file are the rest of a preallocated one. They stand for no batch, so
        that nothing after them goes with them.
        """
        segments = list(log.segments)
        producers = ProducerReplay(log, skip_corrupt=self.cut_bad_batches)
        for index, segment in enumerate(segments):
            survey = survey_segment(segment)
            later = [] if survey.stop is None else segments[index + 1 :]
            takes_good = bool(later) or survey.has_good_after_bad
            if self.cut_bad_batches and survey.corrupt and takes_good:
                is_last = segment is segments[-1]
                yield from self._cut_out(log, survey, producers, is_last=is_last)
                continue
            known = known_aborts(survey, producers)
            if survey.valid_bytes < survey.file_bytes:
                is_cut = self.truncate and (self.delete_later or not takes_good)
                done = {"is_done": is_cut and not self.dry_run, "is_left": not is_cut}
                yield cut_action(survey, takes_good=takes_good, **done)
                if later:
                    yield delete_action(later, **done)
                if is_cut:
                    if not self.dry_run:
                        self._cut(
                            log, survey, later, producers, is_last=segments[-1] in (segment, *later)
                        )
                    yield self._rebuilt(survey, known.aborted, is_cut=True)
                    if survey.stop is not None:
                        return
                    continue
            if survey.lost_to is not None or any(check_indexes(log, survey, known)):
                yield self._rebuilt(survey, known.aborted)
            if survey.stop is not None:
                # Lost offsets are different: with its new indexes the segment is what it is now.
                producers.lose_track(segment)

    def _cut_out(
        self, log: PartitionLog, survey: SegmentSurvey, producers: ProducerReplay, *, is_last: bool
    ) -> Iterator[RecoveryAction]:
        """Cut bad bytes out of a segment; good batches stay, with their offsets."""
        mended = survey.without_bad()
        known = known_aborts(mended, producers)
        is_done = not self.dry_run
        if is_done:
            take_mark_away(log)
            if is_last:
                end_snapshots(log, survey.next_offset, producers.states or ())
            cut_out(survey.segment, known.aborted, index_interval_bytes=self.index_interval_bytes)
        for bad in survey.corrupt:
            yield cut_out_action(survey, bad, is_done=is_done)
        if survey.has_rest_after_bad:
            yield cut_action(mended, takes_good=False, is_done=is_done, is_left=False)
        yield rebuild_action(
            mended, is_done=is_done, is_left=False, keeps_transactions=known.aborted is None
        )

    def _cut(
        self,
        log: PartitionLog,
        survey: SegmentSurvey,
        later: Sequence[Segment],
        producers: ProducerReplay,
        *,
        is_last: bool,
    ) -> None:
        """Do all that goes before bad bytes are cut off."""
        segment = survey.segment
        take_mark_away(log)
        delete_segments(later)
        if survey.stop is not None:
            mark_files_after_deleted(segment.directory, segment.base_offset)
            files.fsync_directory(segment.directory)
        if is_last:
            end_snapshots(log, survey.valid_next_offset, producers.states or ())

    def _rebuilt(
        self,
        survey: SegmentSurvey,
        aborted: Sequence[AbortedTransaction] | None,
        *,
        is_cut: bool = False,
    ) -> RecoveryAction:
        """Make indexes again where that is possible, and then cut what is to be cut."""
        is_possible = is_cut or survey.is_whole
        is_done = is_possible and not self.dry_run
        if is_done:
            rebuild_indexes(survey, aborted, index_interval_bytes=self.index_interval_bytes)
        if is_cut and is_done:
            cut_off(survey)
        return rebuild_action(
            survey,
            is_done=is_done,
            is_left=not is_possible,
            keeps_transactions=is_possible and aborted is None,
        )
