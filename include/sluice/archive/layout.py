"""Where the archive's files lie and what their names say.

``<raw>/<topic>/<topic id>/<partition>/<first offset, 20 digits>.parquet``: the name is a claim on the offsets
from `first` on. A file that was made of several says in its name where it ends, too
(``<first>-<next>.parquet``), and replaces those within. Names that begin with a dot are temporary; Spark and
Hive do not see them.
"""

from __future__ import annotations

import re

from sluice.runtime.settings import Settings

NAME = re.compile(r"(\d{20})(?:-(\d{20}))?\.parquet")
TEMPORARY = re.compile(r"\.tmp-([0-9a-f]+)[.-].*\.parquet")


def topic_directory(settings: Settings, topic: str, topic_id: str) -> str:
    return f"{settings.hdfs.raw}/{topic}/{topic_id}"


def partition_directory(settings: Settings, topic: str, topic_id: str, partition: int) -> str:
    return f"{topic_directory(settings, topic, topic_id)}/{partition}"


def file_name(first: int) -> str:
    return f"{first:020d}.parquet"


def merged_name(first: int, following: int) -> str:
    """The name of a file that was made of those of offsets [first, following)."""
    return f"{first:020d}-{following:020d}.parquet"


def name_in(path: str) -> str:
    """The name of the file at that path."""
    return path.rpartition("/")[2]


def first_of(name: str) -> int | None:
    """The first offset that a file's name claims; None for a temporary or foreign file."""
    found = NAME.fullmatch(name)
    return int(found.group(1)) if found else None


def next_of(name: str) -> int | None:
    """Where a merged file ends, as its name says; None for any other, whose footer says it."""
    found = NAME.fullmatch(name)
    return int(found.group(2)) if found and found.group(2) else None


def temporary_name(writer: str, attempt: int, first: int) -> str:
    """A name that no other attempt of any writer uses.

    So a file that a broken attempt left behind can never be claimed.
    """
    return f".tmp-{writer}.{attempt}-{first}.parquet"


def damaged_name(first: int, now_ms: int) -> str:
    """The name of a damaged file that was taken out of the archive."""
    return f".damaged-{first:020d}-{now_ms}.parquet"


def writer_of(name: str) -> str | None:
    """The writer of a temporary file; None for any other."""
    found = TEMPORARY.fullmatch(name)
    return found.group(1) if found else None
