"""``segmentlog recover``: tells, and mends what it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import CommitPendingError
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.lock import locked
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.running import NAME, batches, contents, flip, objects, run
from tests.support.scenarios import make_scenario


def three_segments(path: Path) -> list[Path]:
    log = LogBuilder(path)
    log.partition("t", 0, [batches(5), batches(5, base_offset=5), batches(5, base_offset=10)])
    return sorted((path / "t-0").glob("*.log"))


def test_nothing_is_cut_off_without_apply(tmp_path: Path) -> None:
    data = batches(3)
    directory = LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, cut_bytes=10)])
    before = contents(tmp_path)
    rest = len(data[0]) - 10
    good = 2 * len(data[0])
    path = f"{directory}/{NAME}.log"
    reason = f"torn tail, {rest} bytes of a batch that is cut off"
    text = f"{rest} bytes from position {good} on ({reason})"
    ran = run("recover", tmp_path)
    assert ran.exit_code == 1
    assert ran.lines[0] == f"cut: {text} (file {path})"
    assert ran.lines[-1] == f"0 done, {len(ran.lines) - 1} to do: --apply does it, 0 left"
    assert contents(tmp_path) == before
    applied = objects("recover", tmp_path, "--apply")
    assert applied[0] == {
        "kind": "cut",
        "topic": "t",
        "partition": 0,
        "path": path,
        "detail": text,
        "isDone": True,
        "isLeft": False,
    }
    assert (directory / f"{NAME}.log").read_bytes() == b"".join(data[:2])
    assert run("recover", tmp_path).lines == ["0 done, 0 left"]
    assert run("verify", tmp_path).exit_code == 0


def test_later_segments_go_only_when_that_is_said(tmp_path: Path) -> None:
    first, second, third = three_segments(tmp_path)
    flip(second, len(batches(1)[0]) + 100)
    before = {path.name: path.read_bytes() for path in (first, second, third)}
    for arguments in ([], ["--apply"]):
        ran = run("recover", tmp_path, *arguments)
        assert ran.exit_code == 1
        kinds = [line.partition(":")[0] for line in ran.lines[:-1]]
        assert kinds[:2] == ["cut", "delete segment"]
        assert ", good batches after them included" in ran.lines[0]
        assert {path.name: path.read_bytes() for path in (first, second, third)} == before
    assert ran.lines[-1].endswith(
        "2 left: good batches lie after bad bytes, --cut-bad-batches would keep them, "
        "--delete-later-segments would take them along"
    )
    told = run("recover", tmp_path, "--delete-later-segments")
    assert (told.exit_code, told.lines[-1]) == (1, "0 done, 3 to do: --apply does it, 0 left")
    assert {path.name: path.read_bytes() for path in (first, second, third)} == before
    ran = run("recover", tmp_path, "--apply", "--delete-later-segments")
    assert ran.lines[:-1] == told.lines[:-1]
    assert (ran.exit_code, ran.lines[-1]) == (0, "3 done, 0 left")
    assert first.read_bytes() == before[first.name]
    assert second.read_bytes() == batches(1, base_offset=5)[0]
    assert not third.exists()
    assert third.with_name(f"{third.name}.deleted").read_bytes() == before[third.name]


def test_bad_batches_are_cut_out_alone_where_that_is_said(tmp_path: Path) -> None:
    first, second, third = three_segments(tmp_path)
    before = {path.name: path.read_bytes() for path in (first, second, third)}
    flip(second, len(batches(1)[0]) + 100)
    flip(first, 100)
    told = run("recover", tmp_path, "--cut-bad-batches")
    kinds = [line.partition(":")[0] for line in told.lines[:-1]]
    assert kinds == ["cut out", "rebuild indexes"] * 2
    assert "offset 0 is missing" in told.lines[0]
    ran = run("recover", tmp_path, "--apply", "--cut-bad-batches")
    assert ran.lines == [*told.lines[:-1], "4 done, 0 left"]
    assert ran.exit_code == 0
    assert first.read_bytes() == before[first.name][len(batches(1)[0]) :]
    assert second.read_bytes() == batches(1, base_offset=5)[0] + b"".join(batches(3, base_offset=7))
    assert third.read_bytes() == before[third.name]
    assert run("verify", tmp_path).exit_code == 0
    ran = run("recover", tmp_path, "--cut-bad-batches", "--delete-later-segments")
    assert ran.exit_code == 2


def test_an_open_commit_is_ended(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        with pytest.raises(CommitPendingError):
            scenario.commit()
    before = scenario.rows()
    told = objects("recover", *scenario.directories, exit_code=1)
    assert [(action["kind"], action["isDone"]) for action in told] == [("end commit", False)] * 2
    assert scenario.rows() == before
    done = objects("recover", *scenario.directories, "--apply")
    assert [(action["kind"], action["isDone"]) for action in done] == [("end commit", True)] * 2
    assert sum(map(len, scenario.rows().values())) > sum(map(len, before.values()))
    assert "open-commit" not in run("ls", *scenario.directories).stdout


def damaged(path: Path, kind: str) -> None:
    """A log that something has happened to."""
    first, second, third = three_segments(path)
    if kind == "torn":
        third.write_bytes(third.read_bytes()[:-10])
    elif kind == "zeros":
        first.write_bytes(first.read_bytes() + bytes(4096))
        third.write_bytes(third.read_bytes() + bytes(4096))
    elif kind == "middle":
        flip(second, len(batches(1)[0]) + 100)
        flip(third, 100)
    elif kind == "indexes":
        first.with_suffix(".index").write_bytes(b"\xff" * 8)
        third.with_suffix(".timeindex").unlink()


@pytest.mark.parametrize(
    "later",
    [[], ["--delete-later-segments"], ["--cut-bad-batches"]],
    ids=["keep", "delete", "cut-out"],
)
@pytest.mark.parametrize("kind", ["torn", "zeros", "middle", "indexes"])
def test_what_is_told_is_what_is_done_line_by_line(
    tmp_path: Path, kind: str, later: list[str]
) -> None:
    damaged(tmp_path, kind)
    before = contents(tmp_path)
    told = run("recover", tmp_path, *later)
    assert contents(tmp_path) == before
    done = run("recover", tmp_path, "--apply", *later)
    assert told.lines[:-1] == done.lines[:-1]
    assert len(told.lines) > 1


def test_one_torn_segment_is_no_wall_of_lines(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [batches(2, base_offset=2 * number) for number in range(50)])
    log.clean_shutdown()
    flip(tmp_path / "t-0" / f"{4:020d}.log", 100)
    ran = run("recover", tmp_path)
    assert len(ran.lines) <= 4
    last = f"{98:020d}.log"
    assert f"47 segments after bad bytes, up to {last}, renamed to .deleted" in ran.lines[1]
    ran = run("recover", tmp_path, "--apply", "--delete-later-segments")
    assert (ran.exit_code, len(ran.lines)) == (0, 4)
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 3


def test_a_compaction_that_was_cut_short_is_told_and_ended(tmp_path: Path) -> None:
    _, second, _ = three_segments(tmp_path)
    second.rename(f"{second}.swap")
    told = run("recover", tmp_path)
    assert told.lines[0].startswith("end compaction: ")
    assert told.lines[-1] == f"0 done, {len(told.lines) - 1} to do: --apply does it, 0 left"
    done = run("recover", tmp_path, "--apply")
    assert (done.exit_code, done.lines[:-1]) == (0, told.lines[:-1])


def test_the_files_of_a_compaction_under_way_are_left_alone(tmp_path: Path) -> None:
    """A broker at work leaves the same files as one that was killed."""
    _, second, _ = three_segments(tmp_path)
    for path in second.parent.glob(f"{second.stem}.*"):
        path.rename(f"{path}.swap")
    with locked([str(tmp_path)]):
        ran = run("recover", tmp_path)
    assert (ran.exit_code, ran.lines) == (0, ["0 done, 0 left"])


def test_an_empty_log_directory_is_nothing_to_mend(tmp_path: Path) -> None:
    for verb in (["recover"], ["recover", "--apply"], ["verify"]):
        assert run(*verb, tmp_path).exit_code == 0
