"""Read a log that lies in a bucket, by its URI and by a file system of your own.

The bucket is an S3 server on this machine where moto is installed (`pip install 'moto[server]'`),
else it is left out.
"""

import fsspec
import pyarrow.fs as pafs
from sample_log import log_directories

from spark_segmentlog import read_arrow

source = log_directories()[0]
local = read_arrow(source, subscribe="table").read_all()

memory = fsspec.filesystem("memory")
memory.put(source, "/logs", recursive=True)
table = read_arrow("/logs", filesystem=memory, subscribe="table").read_all()
print(f"{table.num_rows} records of the topic in memory")
assert table.equals(local)

try:
    from moto.server import ThreadedMotoServer
except ImportError:
    print("no bucket without moto")
else:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    filesystem = pafs.S3FileSystem(
        access_key="testing",
        secret_key="testing",
        region="us-east-1",
        scheme="http",
        endpoint_override=f"{host}:{port}",
        allow_bucket_creation=True,
    )
    filesystem.create_dir("bucket")
    pafs.copy_files(source, "bucket/logs", destination_filesystem=filesystem)
    table = read_arrow(
        "s3://bucket/logs",
        subscribe="table",
        storage_endpoint=f"http://{host}:{port}",
        storage_region="us-east-1",
        storage_access_key="testing",
        storage_secret_key="testing",
    ).read_all()
    print(f"{table.num_rows} records of the topic in the bucket")
    assert table.equals(local)
    server.stop()
