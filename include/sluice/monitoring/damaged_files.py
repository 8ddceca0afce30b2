"""Names the files of HDFS that lack blocks, which otherwise only the namenode's own page does.

And keeps the alert of files that its journal forgot, which nobody can see there, for `retention.days`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack.daemon import Unhealthy
from sluice.stack.health import jmx
from sluice.storage.tables import alerts

#: The source of the alert, and its name.
SOURCE, NAME = "hdfs", "damaged files"
#: The alert of files that are lost as a whole.
FORGOTTEN = "forgotten files"
#: How many files the alert names.
NAMED = 10
#: Below it are the files of HBase's tables.
TABLES = "/hbase/data/"


def tell(settings: Settings, database: sa.Engine) -> None:
    """Raise the alert, or clear it; without an answer it stays as it is.

    One of forgotten files is cleared once it is old.
    """
    old = datetime.now(UTC) - timedelta(days=settings.retention.days)
    alerts.clear(database, SOURCE, [FORGOTTEN], old)
    if "hdfs" in settings.external:
        return  # an external namenode may not show its JMX
    try:
        info = jmx(settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=NameNodeInfo")
        found = corrupt_files(info)
    except (Unhealthy, KeyError, ValueError):
        return
    alerts.sync(database, SOURCE, dict(damaged(found)), prefix=NAME)


def corrupt_files(info: Mapping[str, object]) -> list[str]:
    """The files that lack blocks, of what the namenode says of itself. Raises KeyError, ValueError.

    It names each with a block and how many copies of it are not whole.
    """
    return [str(each).rpartition("\t")[2] for each in json.loads(str(info["CorruptFiles"]))]


def tell_forgotten(database: sa.Engine, message: str) -> None:
    """Raise the alert that the journal forgot files; `tell` clears it after `retention.days`."""
    alerts.sync(database, SOURCE, {FORGOTTEN: message}, prefix=FORGOTTEN)


def damaged(files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The alert's name and message, if there are any such files."""
    if not files:
        return
    named = ", ".join(sorted(files)[:NAMED])
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    shut = (
        f"HBase does not serve the regions of files below {TABLES}, and what needs them waits, until you set "
        "such files aside. "
    )
    yield (
        NAME,
        f"HDFS lost blocks of {named}{more}: they cannot be read. "
        f"{shut if any(each.startswith(TABLES) for each in files) else ''}"
        "What becomes of each kind of file, see the runbook, 'After a power cut'",
    )
