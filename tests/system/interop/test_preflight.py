"""What preflight says a broker does, a broker does: each finding is given to a real one once."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.recovery_action import RecoveryKind
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.preflight import preflight
from tests.support.broker import Broker, BrokerError
from tests.support.broker_writing import draw_records, write_records
from tests.support.kafka_jars import KafkaJars

pytestmark = pytest.mark.interop

ROWS = 60
SMALL_SEGMENTS = {"internal.segment.bytes": 1_500, "index.interval.bytes": 200}


@dataclass(frozen=True, slots=True)
class Stopped:
    """A broker that was stopped, in a copy of its own, and the folders of its two topics.

    The topic ``data`` lies in a log directory without the metadata log, so that the broker goes on
    when that directory goes offline.
    """

    broker: Broker
    folder: Path
    log_directory: Path

    @property
    def metadata_directory(self) -> Path:
        (found,) = (
            log_directory
            for log_directory in self.broker.log_directories
            if log_directory != self.log_directory
        )
        return found

    def findings(self) -> list[Finding]:
        return list(preflight([str(path) for path in self.broker.log_directories]))

    def only(self, kind: FindingKind) -> Finding:
        found = self.findings()
        assert {finding.kind for finding in found} == {kind}
        return found[0]

    def does_not_start(self) -> str:
        with pytest.raises(BrokerError) as caught:
            self.broker.start()
        return str(caught.value)

    def logged(self) -> str:
        return self.broker.log_path.read_text(errors="replace")

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))


@pytest.fixture(scope="module")
def templates(
    jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, str]]:
    """The folders of one broker, cleanly stopped and killed, and where its topic lies."""
    root = tmp_path_factory.mktemp("preflight")
    broker = Broker(root / "running", jars)
    made = {}
    with broker:
        for name in ("data", "data2", "data3"):
            broker.create_topic(name, config=SMALL_SEGMENTS)
        broker.create_topic("other")
        metadata = broker.partition_directory("__cluster_metadata").parent
        names = ("data", "data2", "data3")
        topic = next(name for name in names if broker.partition_directory(name).parent != metadata)
        producer = broker.producer()
        for number in range(ROWS):
            producer.produce(topic, value=b"%060d" % number)
            producer.flush()
        broker.stop()
        _copy(broker.directory, root / "clean")
        made["clean"] = root / "clean", topic
        broker.start()
        for number in range(ROWS):
            producer.produce(topic, value=b"%060d" % number)
            producer.flush()
        broker.kill()
        _copy(broker.directory, root / "killed")
        made["killed"] = root / "killed", topic
    return made


@pytest.fixture
def clean(
    templates: dict[str, tuple[Path, str]], jars: KafkaJars, tmp_path: Path
) -> Iterator[Stopped]:
    yield from _taken_over(*templates["clean"], jars, tmp_path / "broker")


@pytest.fixture
def killed(
    templates: dict[str, tuple[Path, str]], jars: KafkaJars, tmp_path: Path
) -> Iterator[Stopped]:
    yield from _taken_over(*templates["killed"], jars, tmp_path / "broker")


def _taken_over(template: Path, topic: str, jars: KafkaJars, target: Path) -> Iterator[Stopped]:
    _copy(template, target)
    (target / "broker.log").unlink()
    broker = Broker(target, jars)
    broker.format()
    folder = broker.partition_directory(topic)
    stopped = Stopped(broker, folder, folder.parent)
    assert stopped.findings() == []
    yield stopped
    if broker.is_running:
        broker.kill()


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


def _topic(stopped: Stopped) -> str:
    return stopped.folder.name.rpartition("-")[0]


def _offsets(stopped: Stopped) -> list[int]:
    return [record.offset for record in stopped.broker.consume([_topic(stopped)])]


# A broker does not start


@pytest.mark.parametrize("name", ["lost+found", "backup", "data-0-delete"])
def test_a_foreign_folder_keeps_a_broker_from_starting(clean: Stopped, name: str) -> None:
    (clean.log_directory / name).mkdir()
    assert "does not start" in clean.only(FindingKind.FOREIGN_FOLDER).broker
    assert name in clean.does_not_start()


@pytest.mark.parametrize(
    "name", ["notes.log", "backup.index", "a.timeindex", "a.txnindex", "a.snapshot", "a.swap"]
)
def test_a_foreign_file_keeps_a_broker_from_starting(clean: Stopped, name: str) -> None:
    (clean.folder / name).write_bytes(b"text")
    assert "does not start" in clean.only(FindingKind.FOREIGN_FILE).broker
    assert "NumberFormatException" in clean.does_not_start()


def test_a_partition_twice_keeps_a_broker_from_starting(clean: Stopped) -> None:
    _copy(clean.folder, clean.metadata_directory / clean.folder.name)
    assert "does not start" in clean.only(FindingKind.PARTITION_TWICE).broker
    assert "Duplicate log directories" in clean.does_not_start()


def test_one_directory_id_twice_keeps_a_broker_from_starting(clean: Stopped) -> None:
    shutil.copy(clean.metadata_directory / "meta.properties", clean.log_directory)
    assert "does not start" in clean.only(FindingKind.DIRECTORY_ID).broker
    assert "Duplicate directory ID" in clean.does_not_start()


@pytest.mark.parametrize("data", [b"\0" * 90, None], ids=("zeros", "missing"))
def test_meta_properties_that_tell_nothing_keep_a_broker_from_starting(
    clean: Stopped, data: bytes | None
) -> None:
    path = clean.log_directory / "meta.properties"
    path.unlink() if data is None else path.write_bytes(data)
    assert "does not start" in clean.only(FindingKind.META_PROPERTIES).broker
    clean.does_not_start()


def test_a_directory_id_of_kafkas_own_keeps_a_broker_from_starting(clean: Stopped) -> None:
    path = clean.log_directory / "meta.properties"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("directory.id")]
    path.write_text("\n".join([*kept, "directory.id=AAAAAAAAAAAAAAAAAAAAAQ"]))
    assert "does not start" in clean.only(FindingKind.DIRECTORY_ID).broker
    assert "Invalid reserved directory ID" in clean.does_not_start()


def test_a_leader_epoch_that_is_no_number_keeps_a_broker_from_starting(clean: Stopped) -> None:
    (clean.folder / "leader-epoch-checkpoint").write_text("0\n1\n4294967296 0\n")
    assert "does not start" in clean.only(FindingKind.CHECKPOINT).broker
    assert "NumberFormatException" in clean.does_not_start()


def test_meta_properties_as_java_writes_and_reads_them_are_no_finding(clean: Stopped) -> None:
    path = clean.log_directory / "meta.properties"
    text = path.read_text()
    for old, new in (("version=1", "version: 1 "), ("node.id=", "node.id "), ("\n", "\r\n")):
        text = text.replace(old, new)
    path.write_text(f"! {text.replace('cluster.id=', 'cluster.id = ')}")
    assert clean.findings() == []
    clean.broker.start()
    assert _offsets(clean) == list(range(ROWS))


# A log directory goes offline

DAMAGE = (b"\0" * 50, b"garbage\n", b"7\n0\n", b"0\n0\n\n")
DAMAGE_IDS = ("zeros", "garbage", "version", "empty line")


@pytest.mark.parametrize("data", DAMAGE, ids=DAMAGE_IDS)
@pytest.mark.parametrize("name", ["recovery-point", "replication", "cleaner", "log-start"])
def test_a_checkpoint_that_cannot_be_read_takes_its_directory_offline(
    clean: Stopped, name: str, data: bytes
) -> None:
    (clean.log_directory / f"{name}-offset-checkpoint").write_bytes(data)
    assert "offline" in clean.only(FindingKind.CHECKPOINT).broker
    _goes_offline(clean)


@pytest.mark.parametrize("name", ["recovery-point", "log-start"])
def test_a_checkpoint_with_what_is_no_number_is_taken_for_empty(clean: Stopped, name: str) -> None:
    path = clean.log_directory / f"{name}-offset-checkpoint"
    path.write_text(f"0\n1\n{_topic(clean)} 0 x\n")
    assert "takes it for empty" in clean.only(FindingKind.CHECKPOINT).broker
    clean.broker.start()
    assert f"Error occurred while reading {path.name}" in clean.logged()
    assert _offsets(clean) == list(range(ROWS))


@pytest.mark.parametrize(
    ("name", "effect", "logged"),
    [
        ("replication", "serves no partition", "Unable to start fetching"),
        ("cleaner", "log cleaner dies", "[kafka-log-cleaner-thread-0]: Error due to"),
    ],
)
def test_a_checkpoint_with_what_is_no_number_stops_a_part_of_a_broker(
    clean: Stopped, name: str, effect: str, logged: str
) -> None:
    path = clean.log_directory / f"{name}-offset-checkpoint"
    path.write_text(f"0\n1\n{_topic(clean)} 0 x\n")
    assert effect in clean.only(FindingKind.CHECKPOINT).broker
    clean.broker.start()
    _wait_for(lambda: logged in clean.logged(), logged)


@pytest.mark.parametrize("data", DAMAGE, ids=DAMAGE_IDS)
def test_leader_epochs_that_cannot_be_read_take_their_directory_offline(
    clean: Stopped, data: bytes
) -> None:
    (clean.folder / "leader-epoch-checkpoint").write_bytes(data)
    assert "offline" in clean.only(FindingKind.CHECKPOINT).broker
    _goes_offline(clean)


UNREADABLE = (
    "version=7\nnode.id=1\ncluster.id=c\n",
    "version=1\nnode.id=1\n",
    "version=1\nnode.id=1 \ncluster.id=c\n",
    "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=garbage\n",
)


@pytest.mark.parametrize("text", UNREADABLE)
def test_meta_properties_that_cannot_be_read_take_their_directory_offline(
    clean: Stopped, text: str
) -> None:
    (clean.log_directory / "meta.properties").write_text(text)
    assert "offline" in clean.only(FindingKind.META_PROPERTIES).broker
    clean.broker.start()
    assert f"Failed to create or validate data directory {clean.log_directory}" in clean.logged()


@pytest.mark.parametrize("data", [b"\0" * 43, None], ids=("zeros", "without a space"))
def test_a_topic_id_that_cannot_be_read_takes_its_directory_offline(
    clean: Stopped, data: bytes | None
) -> None:
    path = clean.folder / "partition.metadata"
    path.write_bytes(path.read_bytes().replace(b": ", b":") if data is None else data)
    assert "offline" in clean.only(FindingKind.TOPIC_ID).broker
    _goes_offline(clean)


@contextmanager
def _started(broker: Broker) -> Iterator[None]:
    broker.start()
    try:
        yield
    finally:
        broker.kill()


def _goes_offline(stopped: Stopped) -> None:
    with suppress(BrokerError):
        stopped.broker.start()
    wanted = f"Stopping serving logs in dir {stopped.log_directory}"
    _wait_for(lambda: wanted in stopped.logged(), f"{wanted} in {stopped.logged()[-3000:]}")


def _wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


# A partition is set aside


@pytest.mark.parametrize("topic_id", [None, "AAAAAAAAAAAAAAAAAAAAZZ"])
def test_a_partition_without_its_topics_id_is_set_aside(
    clean: Stopped, topic_id: str | None
) -> None:
    path = clean.folder / "partition.metadata"
    path.unlink() if topic_id is None else path.write_text(f"version: 0\ntopic_id: {topic_id}")
    assert "-stray" in clean.only(FindingKind.TOPIC_ID).broker
    clean.broker.start()
    assert list(clean.log_directory.glob(f"{_topic(clean)}-0.*-stray"))
    assert _offsets(clean) == []


def test_a_partition_that_was_mended_is_served(clean: Stopped) -> None:
    (clean.folder / "partition.metadata").unlink()
    (done,) = recover([str(path) for path in clean.broker.log_directories])
    assert done.kind is RecoveryKind.WRITE_TOPIC_ID
    assert clean.findings() == []
    clean.broker.start()
    assert _offsets(clean) == list(range(ROWS))
    assert clean.broker.problems() == []


@pytest.mark.parametrize("number", ["9", "0009"])
def test_a_partition_of_nobody_is_set_aside(clean: Stopped, number: str) -> None:
    name = f"{_topic(clean)}-{number}"
    _copy(clean.folder, clean.log_directory / name)
    (finding,) = clean.findings()
    assert "-stray" in finding.broker
    clean.broker.start()
    assert list(clean.log_directory.glob(f"{_topic(clean)}-9.*-stray"))
    assert _offsets(clean) == list(range(ROWS))


# Leader epochs


def test_a_stale_checkpoint_of_leader_epochs_is_brought_up_to_the_log(clean: Stopped) -> None:
    topic, checkpoint = _topic(clean), clean.folder / "leader-epoch-checkpoint"
    stale = checkpoint.read_bytes()
    clean.broker.start()
    producer = clean.broker.producer()
    producer.produce(topic, value=b"of the next leader")
    producer.flush()
    clean.broker.stop()
    kept_by_broker = checkpoint.read_bytes()
    assert kept_by_broker != stale
    checkpoint.write_bytes(stale)
    records = draw_records(1, 5, topic=topic, partition=0, first_offset=ROWS + 1)
    write_records(clean.broker.log_directories, records)
    assert checkpoint.read_bytes() == kept_by_broker
    clean.broker.start()
    assert _offsets(clean) == list(range(ROWS + 6))
    assert clean.broker.problems() == []
    assert checkpoint.read_text().splitlines()[2:4] == kept_by_broker.decode().splitlines()[2:4]


# Segments are cut and deleted


def test_a_torn_closed_segment_is_cut_and_all_after_it_deleted(killed: Stopped) -> None:
    segments = killed.segments()
    torn = segments[len(segments) // 2]
    with torn.open("r+b") as file:
        file.truncate(torn.stat().st_size - 7)
    finding = killed.only(FindingKind.TORN_SEGMENT)
    assert "deletes every segment after" in finding.broker
    assert finding.path == str(torn)
    killed.broker.start()
    assert torn.stat().st_size == finding.position
    assert killed.segments()[-1] == torn
    assert _offsets(killed)[-1] < int(segments[len(segments) // 2 + 1].stem) - 1


def test_a_log_that_ends_below_its_start_is_deleted(clean: Stopped) -> None:
    (clean.log_directory / "log-start-offset-checkpoint").write_text(
        f"0\n1\n{_topic(clean)} 0 {10 * ROWS}\n"
    )
    assert "deletes all" in clean.only(FindingKind.LOG_START).broker
    clean.broker.start()
    assert [path.stem for path in clean.segments()] == [f"{10 * ROWS:020d}"]


def test_an_offset_in_other_digits_is_taken_for_a_segment_or_deleted(clean: Stopped) -> None:
    (clean.folder / "7000.log").write_bytes(b"text")
    assert "empty segment of offset 7000" in clean.only(FindingKind.FOREIGN_FILE).broker
    (clean.folder / "8000.index").write_bytes(b"text")
    assert "deletes it" in clean.findings()[1].broker
    clean.broker.start()
    assert (clean.folder / f"{7000:020d}.log").stat().st_size == 0
    assert not (clean.folder / "8000.index").exists()


# Owners


def _run_by_another_user(stopped: Stopped, jars: KafkaJars, tmp_path: Path) -> Broker:
    """Give a broker's folders, and the broker, to another user.

    Root alone can become another user; for anybody else it is the same one.
    """
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    libs = tmp_path / "libs"
    shutil.copytree(jars.libs, libs)
    for path in (stopped.broker.directory, *stopped.broker.directory.rglob("*")):
        os.chown(path, user, user)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if os.stat(parent).st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o111)
    broker = Broker(stopped.broker.directory, replace(jars, libs=libs), user=user)
    broker.format()
    return broker


def test_a_broker_of_another_user_opens_what_root_wrote(
    clean: Stopped, jars: KafkaJars, tmp_path: Path
) -> None:
    broker = _run_by_another_user(clean, jars, tmp_path)
    directories = [str(path) for path in clean.broker.log_directories]
    with open_log(directories) as log:
        log.append(_topic(clean), pa.record_batch({"value": [b"by root"] * 5}))
    write_records(
        clean.broker.log_directories,
        draw_records(1, 5, topic=_topic(clean), partition=0, first_offset=ROWS + 5),
    )
    assert clean.findings() == []
    with _started(broker):
        consumed = broker.consume([_topic(clean)])
        assert [record.offset for record in consumed] == list(range(ROWS + 10))
        assert broker.problems() == []


def test_a_file_that_a_broker_may_not_open_takes_its_directory_offline(
    clean: Stopped, jars: KafkaJars, tmp_path: Path
) -> None:
    broker = _run_by_another_user(clean, jars, tmp_path)
    log = clean.segments()[-1]
    log.chmod(0o400)
    assert clean.only(FindingKind.OWNER).path == str(log)
    with _started(broker):
        wanted = f"Stopping serving logs in dir {clean.log_directory}"
        _wait_for(lambda: wanted in clean.logged(), wanted)


# Harmless


def test_a_partition_that_a_link_leads_to_is_served(clean: Stopped, tmp_path: Path) -> None:
    clean.folder.rename(tmp_path / "elsewhere")
    clean.folder.symlink_to(tmp_path / "elsewhere")
    assert clean.only(FindingKind.LINK).is_harmless
    clean.broker.start()
    assert _offsets(clean) == list(range(ROWS))


def test_zeros_at_the_end_of_a_closed_segment_delete_all_after_it(killed: Stopped) -> None:
    padded = killed.segments()[-3]
    with padded.open("ab") as file:
        file.write(bytes(500))
    finding = killed.only(FindingKind.TORN_SEGMENT)
    assert finding.path == str(padded)
    killed.broker.start()
    assert padded.stat().st_size == finding.position
    assert killed.segments()[-1] == padded


def test_what_a_broker_does_not_look_at_is_no_finding(clean: Stopped) -> None:
    for name in ("notes.txt", "t.log.gz", ".nfs0001", "a.deleted"):
        (clean.folder / name).write_bytes(b"text")
    (clean.log_directory / "notes.log").write_bytes(b"text")
    (clean.folder / "folder.log").mkdir()
    (clean.log_directory / "remote-log-index-cache").mkdir()
    (clean.log_directory / "cleaner-offset-checkpoint").write_bytes(b"")
    assert clean.findings() == []
    clean.broker.start()
    assert _offsets(clean) == list(range(ROWS))
