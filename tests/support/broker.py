"""One KRaft node on loopback, started, stopped and killed by a test, and what its clients see.

A broker lives in one folder: ``server.properties``, its log directories (``d0``, ``d1``) and
``broker.log``, which is searched for what a broker only mutters about. Ports are free ones and
stay the same over restarts, since a cluster's metadata names them.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.kafka_jars import KafkaJars

JAVA_SOURCES = Path(__file__).parent / "java"
READY_TIMEOUT_S = 90
STOP_TIMEOUT_S = 90

# A test's broker starts quickly; one that is measured runs as Kafka's own scripts start it.
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SERVER_JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")

_PROBLEM = re.compile(r"stray|Corrupt|ERROR")
_LOG_CONFIGURATION = """\
Configuration:
  status: warn
  Appenders:
    Console:
      name: C
      PatternLayout: {pattern: "[%d] %p %m (%c)%n"}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: C}}
"""
# Retention by time is off because tests write old timestamps, which a broker deletes at once.
_PROPERTIES: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 500,
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "log.segment.delete.delay.ms": 600_000,
    "log.initial.task.delay.ms": 500,
    # The log start offset is nowhere but in its checkpoint, which a broker writes once a minute.
    "log.flush.start.offset.checkpoint.interval.ms": 500,
    "transaction.max.timeout.ms": 7_200_000,
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
    "log.retention.ms": -1,
}


class BrokerError(Exception):
    """The broker did not do what it was asked to; the text holds the end of its log."""


@dataclass(frozen=True, slots=True, order=True)
class ConsumedRecord:
    """A record as a consumer got it, in the terms of the row schema of Spark's Kafka source."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None


class Broker:
    """A broker process and the folder it lives in.

    Parameters
    ----------
    directory
        Folder of the node; may hold one of an earlier broker, which is then taken over.
    jars
        What `tests.support.kafka_jars` fetched.
    log_directory_names
        Folders inside `directory` that become ``log.dirs``.
    properties
        Broker settings over those of this module.
    jvm
        Options of its virtual machine: `QUICK_JVM` or `SERVER_JVM`.
    user
        As whom the process runs, by number; as this one where not given.
    """

    def __init__(
        self,
        directory: Path,
        jars: KafkaJars,
        *,
        log_directory_names: Sequence[str] = ("d0", "d1"),
        properties: Mapping[str, object] | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = QUICK_JVM,
        user: int | None = None,
    ) -> None:
        self.directory = directory
        self.jars = jars
        self.log_directories = [directory / name for name in log_directory_names]
        self.log_path = directory / "broker.log"
        self._heap = heap
        self._jvm = jvm
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        port, controller_port = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._properties = dict(_PROPERTIES) | {
            "log.dirs": ",".join(str(path) for path in self.log_directories),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            **(properties or {}),
        }

    def __enter__(self) -> Self:
        self.format()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self) -> None:
        """Write the settings and, in new log directories, the cluster's identity."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}" for name, value in self._properties.items())
        self._properties_path.write_text("\n".join(lines) + "\n")
        (self.directory / "log4j2.yaml").write_text(_LOG_CONFIGURATION)
        if all((path / "meta.properties").exists() for path in self.log_directories):
            return
        cluster_id = self.run_tool("kafka.tools.StorageTool", "random-uuid").strip()
        self.run_tool(
            "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties_path)
        )

    def start(self) -> None:
        """Start the process and wait until it serves.

        Raises
        ------
        BrokerError
            The process ended, or was not ready in time.
        """
        assert not self.is_running
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._java(
                    "kafka.Kafka", str(self._properties_path), heap=self._heap, jvm=self._jvm
                ),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                user=self._user,
                group=self._user,
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """Stop the broker cleanly, which leaves trimmed indexes and the clean-shutdown mark."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker with SIGKILL, which leaves zero-filled indexes and stale checkpoints."""
        self._end(signal.SIGKILL)

    def problems(self) -> list[str]:
        """Return the lines of the broker's log that tell of trouble with a log directory."""
        return [line for line in self._log().splitlines() if _PROBLEM.search(line)]

    def run_tool(self, main_class: str, *arguments: str, check: bool = True) -> str:
        """Run one of Kafka's command-line tools and return what it printed."""
        run = subprocess.run(
            self._java(main_class, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
            cwd=self.directory,
        )
        if check and run.returncode != 0:
            raise BrokerError(f"{main_class} exited with {run.returncode}: {run.stdout[-2000:]}")
        return run.stdout

    def run_java_source(self, name: str, *arguments: str, check: bool = True) -> str:
        """Run ``java/<name>.java`` with the broker's class path."""
        return self.run_tool(str(JAVA_SOURCES / f"{name}.java"), *arguments, check=check)

    def dump_log(self, *arguments: str, files: Iterable[Path]) -> LogDump:
        """Run ``kafka-dump-log`` over `files`."""
        joined = ",".join(str(path) for path in files)
        tool = "org.apache.kafka.tools.DumpLogSegments"
        return LogDump(self.run_tool(tool, *arguments, "--files", joined))

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def create_topic(
        self, topic: str, *, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic with one replica and wait until it has leaders."""
        settings = {name: str(value) for name, value in (config or {}).items()}
        new_topic = NewTopic(topic, partitions, 1, config=settings)
        admin = self.admin()
        admin.create_topics([new_topic], operation_timeout=30)[topic].result(30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            metadata = admin.list_topics(topic, timeout=10).topics[topic]
            led = [p for p in metadata.partitions.values() if p.leader >= 0]
            if len(led) == partitions:
                return
            time.sleep(0.1)
        raise BrokerError(f"topic {topic} has no leaders after 30 s")

    def producer(self, **config: object) -> Producer:
        """Return a librdkafka producer; underscores in names stand for dots.

        A record that is not delivered raises from the next ``poll`` or ``flush``.
        """
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "linger.ms": 5,
            "log_level": 0,
            "on_delivery": _raise_undelivered,
        }
        settings.update({name.replace("_", "."): value for name, value in config.items()})
        return Producer(settings)

    def consume(
        self, topics: Iterable[str], *, isolation_level: str = "read_uncommitted"
    ) -> list[ConsumedRecord]:
        """Return every record of `topics` from the first to the end of each partition, sorted."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "interop",
                "log_level": 0,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation_level,
                "check.crcs": True,
            }
        )
        try:
            wanted = list(_partitions_of(consumer, topics))
            consumer.assign(wanted)
            return sorted(_poll_to_the_end(consumer, len(wanted)))
        finally:
            consumer.close()

    def partition_directory(self, topic: str, partition: int = 0) -> Path:
        """Return the folder of a partition, in whichever log directory it lies."""
        for log_directory in self.log_directories:
            candidate = log_directory / f"{topic}-{partition}"
            if candidate.is_dir():
                return candidate
        raise BrokerError(f"no folder for partition {partition} of {topic}")

    @property
    def _properties_path(self) -> Path:
        return self.directory / "server.properties"

    def _java(
        self, *arguments: str, heap: str = "256m", jvm: Sequence[str] = QUICK_JVM
    ) -> list[str]:
        return [
            "java",
            f"-Xmx{heap}",
            *jvm,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.yaml'}",
            "-cp",
            self.jars.class_path,
            *arguments,
        ]

    def _log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _wait_until_ready(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if not self.is_running:
                raise BrokerError(f"broker ended while starting: {self._log()[-3000:]}")
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                time.sleep(0.2)
        self.kill()
        raise BrokerError(f"broker not ready after {READY_TIMEOUT_S} s: {self._log()[-3000:]}")

    def _end(self, by: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise BrokerError(f"broker did not stop in {STOP_TIMEOUT_S} s") from None


@dataclass(frozen=True, slots=True)
class LogDump:
    """What ``kafka-dump-log`` printed."""

    text: str

    @property
    def problems(self) -> list[str]:
        """Lines that tell of a mismatch between files, of invalid bytes, or of a broken batch.

        The tool starts each file at offset -1, so that "-1 is followed by" is no problem.
        """
        found = re.compile(
            r"ismatch|not found in the log|out of order|invalid bytes|isvalid: false"
            r"|(?<!-1) is followed by|Exception|Could not|corrupt"
        )
        return [line for line in self.text.splitlines() if found.search(line)]

    @property
    def batch_lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith("baseOffset:")]


def free_ports(count: int) -> list[int]:
    """Return loopback ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def running_broker(directory: Path, jars: KafkaJars, **settings: Any) -> Iterator[Broker]:
    """Run a new broker in `directory` for the time of a ``with`` block."""
    with Broker(directory, jars, **settings) as broker:
        yield broker


def copy_log_directories(broker: Broker, target: Path) -> list[Path]:
    """Copy the log directories, sparse files included, and return the copies."""
    target.mkdir(parents=True)
    copies = []
    for log_directory in broker.log_directories:
        copy = target / log_directory.name
        subprocess.run(
            ["cp", "-a", "--sparse=always", os.fspath(log_directory), os.fspath(copy)], check=True
        )
        copies.append(copy)
    return copies


def _raise_undelivered(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _partitions_of(consumer: Consumer, topics: Iterable[str]) -> Iterator[TopicPartition]:
    for topic in topics:
        for partition in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
            yield TopicPartition(topic, partition, OFFSET_BEGINNING)


def _poll_to_the_end(consumer: Consumer, partition_count: int) -> Iterator[ConsumedRecord]:
    ended: set[tuple[str | None, int | None]] = set()
    deadline = time.monotonic() + 120
    while len(ended) < partition_count:
        if time.monotonic() > deadline:
            raise BrokerError(f"consumer saw {len(ended)} of {partition_count} ends in 120 s")
        for message in consumer.consume(1000, timeout=1.0):
            error = message.error()
            if error is None:
                yield _consumed_record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add((message.topic(), message.partition()))
            elif not error.retriable():
                raise KafkaException(error)


def _consumed_record(message: Message) -> ConsumedRecord:
    kinds = {TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}
    kind, timestamp_ms = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return ConsumedRecord(
        topic,
        partition,
        offset,
        timestamp_ms,
        kinds.get(kind, -1),
        message.key(),
        message.value(),
        _headers(message),
    )


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...] | None:
    headers: Any = message.headers()
    return tuple((name, value) for name, value in headers) if headers else None
