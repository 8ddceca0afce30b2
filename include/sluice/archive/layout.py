"""Where the archive's files lie and what their names say.

``<raw>/<topic>/<topic id>/<partition>/<first offset, 20 digits>.parquet``: the name is a claim on the offsets
from `first` on. A file that was made of several says in its name where it ends, too
(``<first>-<next>.parquet``), and replaces those within. So does one in which lines were erased; its name has
the number of its revision, too (``<first>-<next>-<revision>.parquet``). Names that begin with a dot are
temporary; Spark and Hive do not see them.
"""

from __future__ import annotations

import re

from sluice.runtime.settings import Settings

NAME = re.compile(r"(\d{20})(?:-(\d{20})(?:-(\d{1,9}))?)?\.parquet")
DAMAGED = ".damaged-"
TEMPORARY = re.compile(r"\.tmp-([0-9a-f]+)[.-].*\.parquet")


def topic_directory(settings: Settings, topic: str, topic_id: str) -> str:
    return f"{settings.hdfs.raw}/{topic}/{topic_id}"


def partition_directory(settings: Settings, topic: str, topic_id: str, partition: int) -> str:
    return f"{topic_directory(settings, topic, topic_id)}/{partition}"


def file_name(first: int) -> str:
    return f"{first:020d}.parquet"


def merged_name(first: int, following: int, revision: int = 0) -> str:
    """The name of a file that was made of those of offsets [first, following).

    revision: how often lines were erased in it since then.
    """
    return f"{first:020d}-{following:020d}{f'-{revision}' if revision else ''}.parquet"


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


def revision_of(name: str) -> int:
    """How often lines were erased in a file, as its name says."""
    found = NAME.fullmatch(name)
    return int(found.group(3) or 0) if found else 0


def temporary_name(writer: str, attempt: int, first: int) -> str:
    """A name that no other attempt of any writer uses.

    So a file that a broken attempt left behind can never be claimed.
    """
    return f".tmp-{writer}.{attempt}-{first}.parquet"


def damaged_name(first: int, now_ms: int) -> str:
    """The name of a damaged file that was taken out of the archive."""
    return f"{DAMAGED}{first:020d}-{now_ms}.parquet"


def is_damaged(name: str) -> bool:
    """Whether the file is one that was taken out of the archive because it was damaged."""
    return name.startswith(DAMAGED)


def writer_of(name: str) -> str | None:
    """The writer of a temporary file; None for any other."""
    found = TEMPORARY.fullmatch(name)
    return found.group(1) if found else None
