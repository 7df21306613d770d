"""Unpack the log directories of a real Kafka 4.3.1 broker, for the other examples to read."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "tests" / "data" / "kafka-4.3.1" / "clean.tar.gz"
TARGET = ROOT / ".build" / "sample-log"


def log_directories() -> list[str]:
    """Return the log directories named on the command line, or those of the sample broker."""
    if len(sys.argv) > 1:
        return sys.argv[1:]
    if not TARGET.exists():
        TARGET.mkdir(parents=True)
        subprocess.run(["tar", "-xzSf", str(ARCHIVE), "-C", str(TARGET)], check=True)
    return [str(TARGET / "clean" / name) for name in ("d0", "d1")]


if __name__ == "__main__":
    for directory in log_directories():
        print(directory)
