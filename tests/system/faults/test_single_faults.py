"""A thousand single faults of real logs: no row is wrong, none is missing untold, each is found.

Faults are bit flips in every field of a batch's header and in payloads, cuts, zeroed ranges, and
removed, emptied, swapped and foreign files of every kind, of a partition and of the log directory.
What each promises is told in `fault_oracle`. ``SEGMENTLOG_SEED`` repeats a run,
``SEGMENTLOG_FAULTS`` sets its length; a thousand take about a minute of a free core.

Some faults leave what a broker leaves too, so that nobody can tell them apart. None is left out of
the draw: those of which something was not told are counted and printed with the reason, and are
less than one in a hundred. They are:

- with other rows: another partition's `.log` of the same offsets, a base offset that still lies
  between its neighbours, and a closed segment that ends early, with a whole batch, where no index
  names what is gone: compaction leaves that;
- with all rows, so that verification alone is silent: fewer entries of an `.index`, or zeros after
  them; entries of a `.timeindex` that a crash may have taken; the newest leader epoch after a
  crash; a `.snapshot` that is gone, or lacks a producer without a transaction; small files that
  still hold together and say something that nothing contradicts, or that may be missing.

The end of a crashed log above its recovery point is no such case: what a crash leaves is a normal
end, read up to there, and told.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker_data import PRODUCERS, STATES, BrokerLog
from tests.support.fault_oracle import Truth, is_end_of_a_crash, judge, learn, unknowable
from tests.support.single_faults import FaultSource, Original, open_original

FAULTS = int(os.environ.get("SEGMENTLOG_FAULTS", "1000"))
SAMPLE = 60
# `make test` repeats one sample; `make faults` seeks on.
SAMPLE_SEED = 1
LARGEST_LOG_BYTES = 60_000
ALLOWED_UNKNOWABLE = 0.01


@pytest.fixture(scope="session")
def originals(broker_log: Callable[[str, str], BrokerLog]) -> list[Original]:
    """Small partitions of all producers, stopped and killed."""
    found = []
    for producer in PRODUCERS:
        for state in STATES:
            for log_directory in map(Path, broker_log(producer, state).log_directories):
                for path in sorted(log_directory.glob("[!_]*-[0-9]*")):
                    size_bytes = sum(log.stat().st_size for log in path.glob("*.log"))
                    if 0 < size_bytes < LARGEST_LOG_BYTES:
                        found.append(open_original(f"{producer} {state}", log_directory, path.name))
    return found


def run_faults(originals: list[Original], directory: Path, count: int, seed: int) -> None:
    """Judge faults one after the other, and fail with all that do not hold."""
    seed = int(os.environ.get("SEGMENTLOG_SEED", seed))
    print(f"SEGMENTLOG_SEED={seed}")
    unknown: Counter[str] = Counter()
    crashes = 0
    truths: dict[int, Truth] = {}
    broken = []
    drawn = FaultSource(random.Random(seed), originals).faults()
    for number, (original, fault) in zip(range(count), drawn, strict=False):
        if id(original) not in truths:
            truths[id(original)] = learn(original, directory / "whole")
            shutil.rmtree(directory / "whole")
        found = judge(truths[id(original)], fault, directory / f"fault{number}")
        shutil.rmtree(directory / f"fault{number}")
        reason = unknowable(original, fault)
        if found and reason is not None and all(map(reason.excuses, found)):
            unknown[reason.reason] += 1
            continue
        crashes += is_end_of_a_crash(original, fault)
        broken += [f"{original.name}, {fault}:\n    {text}" for text in found]
    print(f"{crashes} left what a crash leaves, which is read up to there, and told")
    for text, faults in unknown.most_common():
        print(f"{faults} that nobody can know: {text}")
    print(f"{unknown.total()} of {count} that nobody can know")
    assert not broken, f"{len(broken)} promises, seed {seed}:\n" + "\n".join(broken)
    assert unknown.total() < max(ALLOWED_UNKNOWABLE * count, 3)


@pytest.mark.faults
@pytest.mark.timeout(7200)
def test_a_thousand_single_faults_change_no_row_untold(
    originals: list[Original], tmp_path: Path
) -> None:
    run_faults(originals, tmp_path, FAULTS, random.randrange(2**32))


def test_some_single_faults_change_no_row_untold(originals: list[Original], tmp_path: Path) -> None:
    run_faults(originals, tmp_path, SAMPLE, SAMPLE_SEED)
