"""A remote tier in an S3 server on this machine, each request of which takes 30 ms."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
from click.testing import CliRunner

from spark_segmentlog import read_arrow
from spark_segmentlog.cli.main import main
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from spark_segmentlog.testing.system_records import offset_commit
from tests.support.object_store import RECORDS, ObjectStore, add_partition
from tests.support.store_data import Store, read_rows, unpack

pytestmark = pytest.mark.interop

REQUEST_SECONDS = 0.03
SEGMENTS = 350


class CountingServer:
    """Counts the requests to an S3 server, and makes each take its time.

    Attributes
    ----------
    requests : Counter
        By method, those that list left out.
    lists : set of str
        What was listed: folder and page. A client that waits too long asks again.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        self.requests: Counter[str] = Counter()
        self.lists: set[str] = set()
        self.seconds = 0.0
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def uri(self, path: str) -> str:
        place = f"scheme=http&endpoint_override=127.0.0.1:{self._server.port}"
        return f"s3://{path}?{place}&region=us-east-1&allow_bucket_creation=true"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        if method == "GET" and "list-type" in query:
            self.lists.add(query)
        else:
            self.requests[method.lower()] += 1
        time.sleep(self.seconds)
        found: Iterable[bytes] = self._app(environ, start)
        return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingServer]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = CountingServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return unpack("aiven-zstd-aes", tmp_path_factory.mktemp("encrypted"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_local_and_remote_are_one_log(server: CountingServer, encrypted: Store) -> None:
    filesystem, bucket = pafs.FileSystem.from_uri(server.uri("bucket"))
    filesystem.create_dir(bucket)
    pafs.copy_files(str(Path(encrypted.remote)), "bucket/tier", destination_filesystem=filesystem)
    rows = read_rows(
        encrypted.log_directory,
        remote_storage=server.uri("bucket/tier"),
        subscribe_pattern="t[.].*",
        **encrypted.options,
    )
    assert rows == encrypted.truth("read_uncommitted")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lookup_among_many_segments(server: CountingServer) -> None:
    filesystem, bucket = pafs.FileSystem.from_uri(server.uri("many"))
    filesystem.create_dir(bucket)
    objects = ObjectStore()
    add_partition(objects, "many/tier", "t", SEGMENTS)
    for path, data in objects.objects.items():
        with filesystem.open_output_stream(path) as stream:
            stream.write(data)
    server.seconds = REQUEST_SECONDS
    bare = time.monotonic()
    folder = next(iter(objects.objects)).rpartition("/")[0]
    filesystem.get_file_info(pafs.FileSelector(folder))
    bare = time.monotonic() - bare
    pages = len(server.lists)

    server.requests.clear()
    server.lists.clear()
    began = time.monotonic()
    manager = LogManager.open(server.uri("many/tier"))
    log = manager.partition_log(TopicPartition("t", 0))
    offset = SEGMENTS // 2 * RECORDS + 5
    segments = tuple(log.segments_between(offset, offset + 1))
    planning = time.monotonic() - began
    planned = Counter(server.requests)
    wanted = RecordFilter(start_offset=offset, end_offset=offset + 1)
    options = ScanOptions(columns=("offset", "value"), record_filter=wanted)
    rows = [row for batch in scan_segments(segments, options) for row in batch.to_pylist()]
    assert rows == [{"offset": offset, "value": b"v5"}]
    print(f"listing {bare:.2f} s, planning {planning:.2f} s; {dict(server.requests)}")
    # The manifest; then the one index, and the chunk that holds the record.
    assert planned == {"get": 1}
    assert server.requests == {"get": 3}
    # The folders of topics and those of partitions besides.
    assert len(server.lists) == pages + 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_log_directory_in_a_bucket(
    server: CountingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = LogBuilder(tmp_path / "logs")
    batches = [
        v2_batch([RecordSpec(value=b"%d" % number)] * 3, base_offset=3 * number)
        for number in range(40)
    ]
    for number in range(2):
        builder.partition("t", number, [[batch] for batch in batches])
    filesystem, bucket = pafs.FileSystem.from_uri(server.uri("far"))
    filesystem.create_dir(bucket)
    pafs.copy_files(str(tmp_path / "logs"), "far/logs", destination_filesystem=filesystem)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    settings: Any = {
        "storage_endpoint": server.address,
        "storage_region": "us-east-1",
        "storage_access_key": "me",
        "storage_secret_key": "hidden",
    }
    local = read_arrow(tmp_path / "logs").read_all()
    assert local.num_rows == 240
    for uri in ("s3://far/logs", "s3a://far/logs/t-*", "s3://me:hidden@far/logs/"):
        assert read_arrow(uri, **settings).read_all().equals(local)
    assert read_arrow("far/logs", filesystem=filesystem).read_all().equals(local)
    verb = ["ls", "s3://far/logs", "--partitions", "--format", "json"]
    listed = CliRunner().invoke(main, [*verb, "--endpoint", server.address, "--anonymous"])
    assert listed.exit_code == 0, listed.output
    assert [json.loads(line)["logEndOffset"] for line in listed.output.splitlines()] == [120, 120]
    commits = [v2_batch([offset_commit("g", "t", 1, 100)])]
    LogBuilder(tmp_path / "offsets").partition("__consumer_offsets", 0, [commits])
    pafs.copy_files(str(tmp_path / "offsets"), "far/offsets", destination_filesystem=filesystem)
    places = ["s3://far/logs", "s3://far/offsets"]
    reached = ["--endpoint", server.address, "--anonymous"]
    behind = CliRunner().invoke(main, ["lag", *places, *reached, "--format", "json"])
    assert behind.exit_code == 0, behind.output
    assert json.loads(behind.output)["lag"] == 20
