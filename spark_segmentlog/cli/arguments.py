"""What several verbs take: paths, topics, formats, and the partitions that these name."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import click

from spark_segmentlog.cli.output import OutputFormat
from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    NotALogDirectoryError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.log.directory.paths import log_directory_of
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS
from spark_segmentlog.log.io.reading import local_path
from spark_segmentlog.log.io.storage_options import StorageOptions
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.tier.stores import layout_names

_F = TypeVar("_F", bound=Callable[..., Any])

paths_argument: Final = click.argument("paths", metavar="PATH...", nargs=-1, required=True)
log_directories_argument: Final = click.argument(
    "paths", metavar="LOG_DIRECTORY...", nargs=-1, required=True
)
topics_option: Final = click.option(
    "--topic", "topics", metavar="TOPIC", multiple=True, help="This topic alone; may be repeated."
)
format_option: Final = click.option(
    "--format",
    "output_format",
    type=click.Choice(OutputFormat, case_sensitive=False),
    default=OutputFormat.TEXT.value,
    show_default=True,
    help="Text for eyes, or one JSON object a line.",
)
deleted_option: Final = click.option(
    "--include-deleted",
    is_flag=True,
    help="Also the -delete and -stray directories of topics that are deleted, or not known.",
)
lock_timeout_option: Final = click.option(
    "--lock-timeout-ms",
    type=click.IntRange(min=0),
    default=DEFAULT_LOCK_TIMEOUT_MS,
    show_default=True,
    help="How long to wait for another writer; a broker is not waited for.",
)


def storage_options(verb: _F) -> _F:
    """Add what tells how far file systems are reached; the verb takes it as ``storage``."""

    @functools.wraps(verb)
    def with_storage(
        *arguments: Any, endpoint: str | None, region: str | None, anonymous: bool, **others: Any
    ) -> Any:
        storage = StorageOptions(endpoint=endpoint, region=region, is_anonymous=anonymous)
        return verb(*arguments, storage=storage, **others)

    return cast(_F, _with_options(with_storage, _STORAGE_OPTIONS))


def remote_options(verb: _F) -> _F:
    """Add what tells where the segments of tiered storage are, and how far file systems are
    reached; the verb takes both as ``remote``."""

    @functools.wraps(verb)
    def with_remote(
        *arguments: Any,
        remote_storage: tuple[str, ...],
        remote_layout: str | None,
        remote_keys: tuple[tuple[str, str], ...],
        remote_topic_ids: tuple[str, ...],
        storage: StorageOptions,
        **others: Any,
    ) -> Any:
        remote = RemoteOptions(
            uris=remote_storage,
            layout=remote_layout,
            keys=remote_keys,
            topic_ids=remote_topic_ids,
            storage=storage,
        )
        return verb(*arguments, remote=remote, **others)

    return cast(_F, _with_options(storage_options(with_remote), _REMOTE_OPTIONS))


def _with_options(verb: _F, options: Sequence[Callable[[_F], _F]]) -> _F:
    """Add options to a verb, in their order."""
    for option in reversed(options):
        verb = option(verb)
    return verb


_REMOTE_OPTIONS: Final = (
    click.option(
        "--remote-storage",
        metavar="URI",
        multiple=True,
        help="Where tiered storage has copied segments to; read with the log as one.",
    ),
    click.option(
        "--remote-layout",
        type=click.Choice(layout_names()),
        help="How that is laid out; found by looking.",
    ),
    click.option(
        "--remote-key",
        "remote_keys",
        nargs=2,
        metavar="ID FILE",
        multiple=True,
        help="A key pair's id and its private key, for encrypted segments.",
    ),
    click.option(
        "--remote-topic-id",
        "remote_topic_ids",
        metavar="ID",
        multiple=True,
        help="A topic to read of several of one name, or one that was deleted.",
    ),
)

_STORAGE_OPTIONS: Final = (
    click.option("--endpoint", metavar="URL", help="The server of s3: paths, if not Amazon's."),
    click.option("--region", help="Its region; AWS_ACCESS_KEY_ID and its like say who asks."),
    click.option(
        "--anonymous", is_flag=True, help="Sign no requests to s3: paths: the bucket is public."
    ),
)


def topics_or_all_options(verb: _F) -> _F:
    """Add ``--topic`` and ``--all-topics``, of which verbs that take records away need one."""
    all_topics = click.option(
        "--all-topics", is_flag=True, help="Every topic but a broker's own, __*."
    )
    return topics_option(all_topics(verb))


def topics_or_all(topics: Sequence[str], *, all_topics: bool) -> list[str] | None:
    """Give the topics chosen, None for all; choosing nothing, or both, is refused."""
    if bool(topics) == all_topics:
        raise click.UsageError("name topics by --topic, or give --all-topics; one of the two")
    return None if all_topics else list(topics)


def open_logs(
    paths: Sequence[str],
    topics: Sequence[str],
    *,
    include_deleted: bool = False,
    remote: RemoteOptions = NO_REMOTE,
) -> list[PartitionLog]:
    """Open the partitions below each path, bad bytes in them being stepped over.

    Each path is looked at on its own, so that several replicas of one partition all show.

    Raises
    ------
    UnknownTopicOrPartitionError
        A topic is below none of the paths.
    """
    logs: list[PartitionLog] = []
    empty: list[EmptyLogDirectoryError] = []
    for path in paths:
        try:
            manager = LogManager.open(
                path, include_deleted=include_deleted, skip_corrupt=True, remote=remote
            )
        except EmptyLogDirectoryError as error:
            empty.append(error)
            continue
        # Lists again if a commit comes in between, so the logs are taken after it.
        manager.offset_bounds()
        # A topic may have been made again beside its deleted self.
        logs.extend(manager.copies if include_deleted else manager.topic_partitions.values())
    if not logs and empty:
        raise empty[0]
    for nothing in empty:
        click.echo(str(nothing), err=True)
    return _of_topics(logs, topics)


def find_topic_partitions(
    paths: Sequence[str], topics: Sequence[str], remote: RemoteOptions = NO_REMOTE
) -> set[TopicPartition] | None:
    """Name the partitions of topics; None, for all, without topics."""
    if not topics:
        return None
    return {log.topic_partition for log in open_logs(paths, topics, remote=remote)}


def check_log_directories(paths: Sequence[str], *, beside: bool = False) -> list[str]:
    """Make sure that paths are log directories, as locks and checkpoints lie there.

    With `beside`, partition directories beside the log pass too (``-delete``, ``-stray``).

    Raises
    ------
    NotALogDirectoryError
        A partition directory, or a file.
    EmptyLogDirectoryError
        A folder of something else.
    """
    paths = [local_path(path) for path in paths]
    for path in paths:
        held = LogManager.open(path, may_be_empty=True).log_directories
        wanted = log_directory_of(path) if beside else os.path.realpath(path)
        if held != (wanted,):
            raise NotALogDirectoryError(
                f"{path} is no log directory: name the one above it, {', '.join(held)}"
            )
    return list(paths)


def _of_topics(logs: Sequence[PartitionLog], topics: Sequence[str]) -> list[PartitionLog]:
    present = {log.topic_partition.topic for log in logs}
    for topic in topics:
        if topic not in present:
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} is not there; there are {', '.join(sorted(present))}"
            )
    return [log for log in logs if not topics or log.topic_partition.topic in topics]
