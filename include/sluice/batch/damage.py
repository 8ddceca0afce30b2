"""A damaged file of the archive, named where Spark's error would say only that a job failed."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from sluice.runtime.settings import Settings

#: Spark's messages about a file that it cannot read, and HDFS's about one that is gone.
_FILE = re.compile(r"(?:file|exist):? (?:/\S+ )?'?(hdfs://\S+?\.parquet|/\S+?\.parquet)", re.IGNORECASE)


def damaged_file(settings: Settings, topic: str, error: Exception) -> str | None:
    """The error in a sentence, with its remedy, if it is about a file of the topic's archive."""
    for found in _FILE.finditer(str(error)):
        path = unquote(urlsplit(found[1]).path)
        if path.startswith(f"{settings.hdfs.raw}/{topic}/"):
            return (
                f"the archive's file {path} cannot be read: `sluice archive verify {topic} --deep` lists all "
                f"that is damaged, and `sluice archive repair {topic}` takes it from Kafka again"
            )
    return None
