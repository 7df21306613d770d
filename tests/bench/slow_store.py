"""A store that speaks as much of S3 as a read needs, with the waits of a network: its own process.

Each request waits for a while, and each answer comes at the rate of a connection. Buckets are the
folders in a folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.project import PROJECT

PACKET_BYTES = 256 << 10


@contextmanager
def slow_store(folder: Path, *, wait_ms: int, connection_mb: int) -> Iterator[str]:
    """Serve a folder; gives the URL of the server.

    Parameters
    ----------
    wait_ms : int
        Before each answer.
    connection_mb : int
        MB a second of each answer.
    """
    command = [sys.executable, "-m", "tests.bench.slow_store", str(folder)]
    waits = ["--wait-ms", str(wait_ms), "--connection-mb", str(connection_mb)]
    with subprocess.Popen([*command, *waits], cwd=PROJECT, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A body waits for nothing once its headers are on their way.
    disable_nagle_algorithm = True
    folder: Path
    wait_seconds: float
    connection_bytes: float

    def do_GET(self) -> None:
        """Answer with a range of an object, or a listing."""
        time.sleep(self.wait_seconds)
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if "list-type" in query:
            self._list(unquote(parts.path).strip("/"), query.get("prefix", [""])[0])
        else:
            self._give(self.folder / unquote(parts.path).lstrip("/"))

    def _list(self, bucket: str, prefix: str) -> None:
        parent = self.folder / bucket / prefix
        found = sorted(parent.iterdir()) if parent.is_dir() else []
        rows = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + path.name)}/</Prefix></CommonPrefixes>"
            if path.is_dir()
            else f"<Contents><Key>{escape(prefix + path.name)}</Key>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
            f"<Size>{path.stat().st_size}</Size></Contents>"
            for path in found
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        self._begin(200, len(body))
        self.wfile.write(body.encode())

    def _give(self, path: Path) -> None:
        if not path.is_file():
            self._begin(404, 0)
            return
        size = path.stat().st_size
        asked = self.headers.get("Range")
        first, last = 0, size - 1
        if asked is not None:
            first, last = (int(number) for number in asked.removeprefix("bytes=").split("-"))
            last = min(last, size - 1)
        with path.open("rb") as file:
            self._begin(200 if asked is None else 206, last + 1 - first, (first, last, size))
            self._send(file, first, last + 1)

    def _send(self, file: BinaryIO, start: int, end: int) -> None:
        began = time.monotonic()
        for position in range(start, end, PACKET_BYTES):
            packet = os.pread(file.fileno(), min(PACKET_BYTES, end - position), position)
            self.connection.sendall(packet)
            due = began + (position + len(packet) - start) / self.connection_bytes
            time.sleep(max(due - time.monotonic(), 0))

    def _begin(self, status: int, length: int, part: tuple[int, int, int] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if part is not None:
            self.send_header("Content-Range", "bytes {}-{}/{}".format(*part))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serve until the process is ended; prints the port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wait-ms", type=int, required=True)
    parser.add_argument("--connection-mb", type=int, required=True)
    parsed = parser.parse_args()
    _Handler.folder = parsed.folder
    _Handler.wait_seconds = parsed.wait_ms / 1000
    _Handler.connection_bytes = parsed.connection_mb * 1e6
    server = _Server(("127.0.0.1", 0), _Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
