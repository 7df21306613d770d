"""Bring topics back from tiered storage: read the bucket, then make a log directory of it.

The bucket is an S3 server on this machine where moto is installed (`pip install 'moto[server]'`),
else a folder.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.fs as pafs

from spark_segmentlog import read_arrow

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "tiered-4.3.1" / "aiven-zstd-aes"
work = Path(tempfile.mkdtemp(prefix="segmentlog-restore-"))
for name in ("remote", "test-keys"):
    subprocess.run(["tar", "-xzf", str(DATA / f"{name}.tar.gz"), "-C", str(work)], check=True)
keys = {
    path.name.removesuffix(".private.pem"): str(path)
    for path in (work / "TEST-KEYS").glob("*.private.pem")
}

try:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    address = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1"
    bucket = f"s3://tier?{address}&allow_bucket_creation=true"
    filesystem, path = pafs.FileSystem.from_uri(bucket)
    filesystem.create_dir(path)
    pafs.copy_files(str(work / "remote"), path, destination_filesystem=filesystem)
except ImportError:
    server, bucket = None, str(work / "remote")

table = read_arrow(bucket, subscribe="t.none", remote_storage_keys=keys).read_all()
print(f"{table.num_rows} records of t.none in the bucket, offsets from {table['offset'][0]}")

segmentlog = str(Path(sys.executable).with_name("segmentlog"))
command = [segmentlog, "salvage", bucket, str(work / "restored"), "--topic", "t.none"]
for key_id, path in keys.items():
    command += ["--remote-key", key_id, path]
subprocess.run(command, check=True)

restored = read_arrow(str(work / "restored")).read_all()
print(f"{restored.num_rows} records of t.none on disk, as a broker would have them:")
for path in sorted((work / "restored" / "t.none-0").iterdir()):
    print(f"  {path.name}")
assert restored.equals(table)
if server is not None:
    server.stop()
