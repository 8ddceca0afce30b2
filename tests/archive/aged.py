"""Files in HDFS that are older than they are, so that compaction takes them for closed."""

from __future__ import annotations

from collections.abc import Iterable

import urllib3

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsFile

DAY_MS = 86_400_000


def age(settings: Settings, directory: str, files: Iterable[HdfsFile], days: int = 4) -> None:
    """Let these files of a directory have been written so many days before."""
    hdfs = settings.hdfs
    for file in files:
        at = file.modified - days * DAY_MS
        query = f"op=SETTIMES&modificationtime={at}&user.name={hdfs.user}"
        answer = urllib3.request("PUT", f"{hdfs.webhdfs}/webhdfs/v1{directory}/{file.name}?{query}")
        assert answer.status == 200
