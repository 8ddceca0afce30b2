"""Archive topics into HDFS until SIGTERM.

    python jobs/archiver.py [--topic logs [--topic more]]

Without --topic it archives `logs` and every topic that a task reads, new ones as they come.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sluice.archive import service
from sluice.runtime import garbage
from sluice.runtime.thread_dump import dump_on_signal
from sluice.stack.jobs import ARCHIVER


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", action="append", default=[], help="archive only this topic (repeatable)")
    parser.add_argument(
        "--declare-lost",
        metavar="PARTITION:OFFSET",
        help="do not archive, but record that the offsets from OFFSET to the next file are gone for good",
    )
    parser.add_argument(
        "--progress", type=Path, help="where to write the heartbeat (default: the instance's run directory)"
    )
    parser.add_argument(
        "--member", default=ARCHIVER, help="this one's name among several (default: %(default)s)"
    )
    given = parser.parse_args()
    dump_on_signal()
    if given.declare_lost:
        partition, _, first = given.declare_lost.partition(":")
        if len(given.topic) != 1 or not (partition.isdecimal() and first.isdecimal()):
            parser.error("--declare-lost takes one topic, and PARTITION:OFFSET as in 2:1000")
        return service.declare_lost(given.topic[0], int(partition), int(first))
    garbage.loaded()
    return service.archive(given.topic, given.progress, given.member)


if __name__ == "__main__":
    raise SystemExit(main())
