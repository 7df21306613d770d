"""The jars of a Kafka broker, its tools and Spark's Kafka connector, kept in one cache folder.

Spark's own Ivy resolves them, so nothing is needed beyond Java and pip. The folder holds ``libs``
(class path of a broker and its tools), ``connector`` (what a Spark session adds for
``format("kafka")``) and ``complete``, which is written last and names what was resolved.

Run ``python -m tests.support.kafka_jars`` to fetch them and print the folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.project import PROJECT

KAFKA_VERSION = "4.3.1"
# The connector of the Spark release itself may not be published yet; a neighbour of it runs too.
CONNECTOR_FALLBACK_VERSION = "4.2.0"
SCALA_VERSION = "2.13"

RESOLVE_TIMEOUT_S = 540

# Kafka's own jars hold no SLF4J provider, so a broker that refuses to start would say nothing.
# Spark's exclusions keep scala-library out of what Ivy resolves.
_JARS_FROM_SPARK = re.compile(
    r"(slf4j-api|log4j-slf4j2-impl|log4j-api|log4j-core|scala-library)-\d.*\.jar"
)
_REPLACED_JARS = re.compile(r"(slf4j-api|slf4j-reload4j|log4j-.*|reload4j)-\d.*\.jar")
_CONNECTOR_JARS = re.compile(
    r"(spark-sql-kafka-0-10_.*|spark-token-provider-kafka-0-10_.*|kafka-clients|commons-pool2)"
    r"-\d.*\.jar"
)
_SPARK_ONLY_JARS = re.compile(r"(spark-|hadoop-|scala-parallel-collections|jsr305).*\.jar")


class KafkaJarsError(Exception):
    """The jars are not there and could not be resolved."""


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """Where the jars are.

    Attributes
    ----------
    libs
        Folder whose jars are the class path of a broker and of its tools.
    connector
        Jars for ``spark.jars`` that make ``format("kafka")`` known to a session.
    """

    libs: Path
    connector: tuple[Path, ...]

    @property
    def class_path(self) -> str:
        return str(self.libs / "*")


def cache_directory() -> Path:
    """Tell where the jars are kept: ``SEGMENTLOG_JARS``, or below the project."""
    chosen = os.environ.get("SEGMENTLOG_JARS")
    return Path(chosen).resolve() if chosen else PROJECT / ".build" / "kafka-jars"


def cached_kafka_jars() -> KafkaJars | None:
    """Return the jars if an earlier run has fetched them, without asking a network."""
    directory = cache_directory()
    complete = directory / "complete"
    if not complete.is_file() or json.loads(complete.read_text()).get("kafka") != KAFKA_VERSION:
        return None
    return KafkaJars(directory / "libs", tuple(sorted((directory / "connector").glob("*.jar"))))


def kafka_jars() -> KafkaJars:
    """Return the jars, fetching them into the cache folder the first time.

    Raises
    ------
    KafkaJarsError
        In one line: Java is missing, or no repository that Ivy knows could be reached.
    """
    cached = cached_kafka_jars()
    if cached is not None:
        return cached
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        connector_version = _resolve(Path(scratch))
        _fill(directory, Path(scratch) / "ivy" / "jars")
    complete = {"kafka": KAFKA_VERSION, "connector": connector_version}
    (directory / "complete").write_text(json.dumps(complete))
    found = cached_kafka_jars()
    assert found is not None
    return found


def _resolve(scratch: Path) -> str:
    """Let Ivy fetch everything; return the connector's version that was there."""
    failure = ""
    for version in dict.fromkeys((pyspark.__version__, CONNECTOR_FALLBACK_VERSION)):
        failure = _run_ivy(scratch, version)
        if not failure:
            return version
    raise KafkaJarsError(f"kafka jars could not be resolved through Spark's Ivy: {failure}")


def _run_ivy(scratch: Path, connector_version: str) -> str:
    """Run spark-submit, which resolves packages before the (empty) program; return the failure."""
    packages = ",".join(
        (
            f"org.apache.kafka:kafka_{SCALA_VERSION}:{KAFKA_VERSION}",
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            f"org.apache.spark:spark-sql-kafka-0-10_{SCALA_VERSION}:{connector_version}",
        )
    )
    program = scratch / "nothing.py"
    program.write_text("")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--packages", packages]
    command += ["--conf", f"spark.jars.ivy={scratch / 'ivy'}", str(program)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if run.returncode == 0 else _reason(run.stderr)


def _reason(stderr: str) -> str:
    """Pick the line of Ivy's long output that says what went wrong."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"not found|Exception|JAVA_HOME|refused", line)]
    return (telling or lines or ["no output"])[0]


def _fill(directory: Path, resolved: Path) -> None:
    """Lay the resolved jars out as ``libs`` and ``connector``."""
    jars = {path.name.split("_", 1)[1]: path for path in resolved.glob("*.jar")}
    broker = {
        name: path
        for name, path in jars.items()
        if not _REPLACED_JARS.fullmatch(name) and not _SPARK_ONLY_JARS.fullmatch(name)
    }
    spark_jars = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    broker |= {path.name: path for path in spark_jars if _JARS_FROM_SPARK.fullmatch(path.name)}
    connector = {name: path for name, path in jars.items() if _CONNECTOR_JARS.fullmatch(name)}
    _replace_folder(directory / "libs", broker.items())
    _replace_folder(directory / "connector", connector.items())


def _replace_folder(folder: Path, jars: Iterable[tuple[str, Path]]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, path in jars:
        shutil.copyfile(path, folder / name)


def main() -> int:
    try:
        print(kafka_jars().libs.parent)
    except KafkaJarsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
