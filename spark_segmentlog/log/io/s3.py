"""Buckets that speak S3, by their URI: through obstore where that is installed, else pyarrow.

``s3://[key:secret@]bucket/path[?region=&endpoint_override=&scheme=]``, as pyarrow has it; ``s3a:``
and ``s3n:``, as Hadoop has them, are the same. What an option says goes before the URI, that before
the environment. pyarrow asks for the size of each object that it opens; obstore does not. Profiles
in ``~/.aws`` are pyarrow's alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from spark_segmentlog.log.io.object_store import ObjectStorage
from spark_segmentlog.log.io.storage_options import StorageOptions

SCHEMES: Final = ("s3", "s3a", "s3n")
_PROFILE_VARIABLES: Final = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
)
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def open_bucket(uri: str, options: StorageOptions) -> tuple[ObjectStorage | Any, str]:
    """Find the bucket of a URI, and the path with the bucket's name in front."""
    parts = urlsplit(uri)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    bucket = parts.netloc.rpartition("@")[2]
    path = f"{bucket}{unquote(parts.path)}"
    merged = _merged(options, parts.username, parts.password, query)
    if _is_obstore_enough(merged):
        return ObjectStorage(_obstore_bucket(bucket, merged), bucket), path
    return _arrow_filesystem(merged, query), path


def _merged(
    options: StorageOptions, user: str | None, password: str | None, query: Mapping[str, str]
) -> StorageOptions:
    """Put together what options, URI and environment say."""
    endpoint = options.endpoint or query.get("endpoint_override") or _variable(_ENDPOINT_VARIABLES)
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"{query.get('scheme', 'https')}://{endpoint}"
    region = options.region or query.get("region") or _variable(_REGION_VARIABLES)
    if options.access_key is not None or user is None:
        return replace(options, endpoint=endpoint, region=region)
    return replace(
        options,
        endpoint=endpoint,
        region=region,
        access_key=unquote(user),
        secret_key=unquote(password or ""),
    )


def _variable(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _is_obstore_enough(options: StorageOptions) -> bool:
    """Tell whether obstore is there, and finds the credentials that pyarrow would."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        return False
    is_given = options.access_key is not None or options.is_anonymous
    if is_given or "AWS_ACCESS_KEY_ID" in os.environ:
        return True
    home = os.path.expanduser("~/.aws")
    files = (os.path.exists(f"{home}/{name}") for name in ("credentials", "config"))
    return _variable(_PROFILE_VARIABLES) is None and not any(files)


def _obstore_bucket(bucket: str, options: StorageOptions) -> Any:
    from obstore.store import S3Store

    config: dict[str, Any] = {
        "endpoint": options.endpoint,
        "region": options.region or (None if options.endpoint else _region_of(bucket)),
        "access_key_id": options.access_key,
        "secret_access_key": options.secret_key,
        "session_token": options.session_token,
        "skip_signature": options.is_anonymous or None,
    }
    given = {name: value for name, value in config.items() if value is not None}
    is_plain = (options.endpoint or "").startswith("http://")
    return S3Store(bucket, client_options={"allow_http": is_plain}, **given)


def _region_of(bucket: str) -> str:
    from pyarrow.fs import resolve_s3_region

    return str(resolve_s3_region(bucket))


def _arrow_filesystem(options: StorageOptions, query: Mapping[str, str]) -> Any:
    from pyarrow.fs import S3FileSystem

    scheme, _, server = (options.endpoint or "https://").partition("://")
    return S3FileSystem(
        access_key=options.access_key,
        secret_key=options.secret_key,
        session_token=options.session_token,
        anonymous=options.is_anonymous,
        region=options.region,
        scheme=scheme,
        endpoint_override=server or None,
        allow_bucket_creation=query.get("allow_bucket_creation") == "true",
    )
