from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch, MetaProperties
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import TopicPartition


def test_an_offset_checkpoint_reads_as_it_was_written() -> None:
    offsets = {TopicPartition("a.b-c", 0): 5, TopicPartition("t", 11): 2**62}
    data = checkpoints.format_offset_checkpoint(offsets)
    assert data == b"0\n2\na.b-c 0 5\nt 11 4611686018427387904\n"
    assert checkpoints.parse_offset_checkpoint(data.decode()) == offsets
    assert checkpoints.parse_offset_checkpoint("0\n0\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "1\n0\n",
        "0\nx\n",
        "0\n2\nt 0 5\n",
        "0\n1\nt 0\n",
        "0\n1\nt x 5\n",
        "0\n1\nt 0 x\n",
        " 0\n1\nt 0 5\n",
        "0\n1\n t 0 5\n",
        "0\n1\nt 0 5\n\n",
        "0\n\n1\nt 0 5\n",
        "0\n1\nt\u00a00\u00a05\n",
    ],
)
def test_a_checkpoint_that_does_not_hold_together_is_as_good_as_none(
    text: str, tmp_path: Path
) -> None:
    assert checkpoints.parse_offset_checkpoint(text) is None
    name = checkpoints.LOG_START_OFFSET_CHECKPOINT
    (tmp_path / name).write_text(text)
    assert checkpoints.read_offset_checkpoint(LOCAL, str(tmp_path), name) is None


def test_a_missing_checkpoint_is_none(tmp_path: Path) -> None:
    name = checkpoints.HIGH_WATERMARK_CHECKPOINT
    assert checkpoints.read_offset_checkpoint(LOCAL, str(tmp_path), name) is None
    assert checkpoints.read_leader_epochs(LOCAL, str(tmp_path)) == []


def test_leader_epochs_ascend_and_read_as_they_were_written(tmp_path: Path) -> None:
    epochs = [LeaderEpoch(0, 0), LeaderEpoch(4, 155)]
    (tmp_path / "leader-epoch-checkpoint").write_bytes(checkpoints.format_leader_epochs(epochs))
    assert checkpoints.read_leader_epochs(LOCAL, str(tmp_path)) == epochs
    assert checkpoints.parse_leader_epochs("0\n1\n0 0 0\n") is None


@pytest.mark.parametrize("row", ["2147483648 0", "-1 0", "0 -1", f"0 {2**63}", "0 \u00b2"])
def test_leader_epochs_that_java_would_not_read_are_none(row: str) -> None:
    assert checkpoints.parse_leader_epochs(f"0\n1\n{row}\n") is None


@pytest.mark.parametrize("row", ["t 2147483648 0", "t -1 0", "t \u00b2 0", f"t 0 {2**63}"])
def test_offsets_that_java_would_not_read_are_none(row: str) -> None:
    assert checkpoints.parse_offset_checkpoint(f"0\n1\n{row}\n") is None


@pytest.mark.parametrize(
    "text",
    [
        "version=1\nnode.id=5\ncluster.id=c=\n",
        "version: 1\nnode.id: 5\ncluster.id: c=\n",
        "version=1 \nnode.id=5\ncluster.id=c=",
        "version 1\nnode.id 5\ncluster.id c\\=",
        "  version = 1\r\n! node.id = 6\r\n\r\nnode.id\t=\t5\r\ncluster.id = c\\u003d\r\n",
        "version=1\nnode.id=9\nnode.id=5\ncluster.id=\\\n   c=\n",
        "version=0\nbroker.id=5\ncluster.id=c=\n",
    ],
)
def test_meta_properties_are_read_as_java_reads_them(text: str) -> None:
    assert checkpoints.parse_meta_properties(text) == MetaProperties(cluster_id="c=", node_id=5)


@pytest.mark.parametrize("line", ["node.id=5 ", "directory.id=garbage", "directory.id="])
def test_meta_properties_that_a_broker_would_not_read_are_none(line: str) -> None:
    text = f"version=1\nnode.id=5\ncluster.id=c\n{line}\n"
    assert checkpoints.parse_meta_properties(text) is None


@pytest.mark.parametrize("node_id", ["2147483648", "9" * 5000, "-1", "\u00b2"])
def test_a_node_id_that_java_would_not_read_is_none(node_id: str) -> None:
    text = f"version=1\ncluster.id=c\nnode.id={node_id}\n"
    assert checkpoints.parse_meta_properties(text) is None


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    epochs = [LeaderEpoch(0, 0), LeaderEpoch(4, 155), LeaderEpoch(7, 200)]
    assert checkpoints.end_offset_for_epoch(epochs, 0, 300) == 155
    assert checkpoints.end_offset_for_epoch(epochs, 5, 300) == 200
    assert checkpoints.end_offset_for_epoch(epochs, 7, 300) == 300


@pytest.mark.parametrize(
    "text",
    [
        "version:0\ntopic_id:vNGZh4ObRki8YWfIBZ0LOw",
        "topic_id: vNGZh4ObRki8YWfIBZ0LOw\nversion: 0",
        "\nversion: 0\ntopic_id: vNGZh4ObRki8YWfIBZ0LOw",
        "version: -1\ntopic_id: vNGZh4ObRki8YWfIBZ0LOw",
        "version: 0\ntopic_id: vNGZh4ObRki8YWfIBZ0L+w",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0",
    ],
)
def test_partition_metadata_that_a_broker_would_not_read_is_none(text: str) -> None:
    assert checkpoints.parse_topic_id(text) is None


def test_partition_metadata_names_the_topic_id(tmp_path: Path) -> None:
    topic_id = "vNGZh4ObRki8YWfIBZ0LOw"
    data = checkpoints.format_topic_id(topic_id)
    assert data == b"version: 0\ntopic_id: vNGZh4ObRki8YWfIBZ0LOw"
    assert checkpoints.parse_topic_id(data.decode()) == topic_id
    assert checkpoints.parse_topic_id("version: 0\n") is None
    assert checkpoints.read_topic_id(LOCAL, str(tmp_path)) is None


def test_meta_properties_of_both_versions_and_none_of_another() -> None:
    text = "#\n#Fri Nov 27 20:59:02 UTC 2026\nnode.id=1\ncluster.id=AF7U9\\=\\=\nversion=1\n"
    owner = MetaProperties(cluster_id="AF7U9==", node_id=1)
    assert checkpoints.parse_meta_properties(text) == owner
    of_zookeeper = "broker.id=1\ncluster.id=AF7U9\\=\\=\nversion=0\n"
    assert checkpoints.parse_meta_properties(of_zookeeper) == owner
    for bad in ("", "\0" * 80, "version=1\ncluster.id=c\n", "version=7\nnode.id=1\ncluster.id=c\n"):
        assert checkpoints.parse_meta_properties(bad) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 43,
        "topic_id: vNGZh4ObRki8YWfIBZ0LOw",
        "version: 0\ntopic_id: vNGZh4ObRki8YWfIBZ0L",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: x\ntopic_id: vNGZh4ObRki8YWfIBZ0LOw",
    ],
)
def test_a_topic_id_that_a_broker_would_not_take_is_none(text: str) -> None:
    assert checkpoints.parse_topic_id(text) is None
