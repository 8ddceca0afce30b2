"""Whether the NameNode's heap is nearly full of files and blocks: it keeps all of them in memory.

A NameNode without memory ends, and ends again at every start. Then only more heap helps, so it is said
before.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack.daemon import Unhealthy
from sluice.stack.health import jmx
from sluice.storage.tables import alerts

#: The source of the alert, and its name.
SOURCE, NAME = "hdfs", "namenode"
#: Of its heap, for a file, a directory or a block. A file of the archive with its block takes 249 bytes, and
#: the NameNode needs some heap beside them.
OBJECT_BYTES = 150
#: The share of its heap above which the alert is raised.
NEARLY_FULL = 0.8


def tell(settings: Settings, database: sa.Engine) -> None:
    """Raise the alert, or clear it; without an answer it stays as it is."""
    if "hdfs" in settings.external:
        return  # an external namenode may not show its JMX
    try:
        state = jmx(settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=FSNamesystemState")
        memory = jmx(settings.hdfs.webhdfs, "java.lang:type=Memory")
        objects = int(state["FilesTotal"]) + int(state["BlocksTotal"])
        heap = int(memory["HeapMemoryUsage"]["max"])
    except (Unhealthy, KeyError):
        return
    alerts.sync(database, SOURCE, dict(nearly_full(objects, heap)), prefix=NAME)


def nearly_full(objects: int, heap: int) -> Iterator[tuple[str, str]]:
    """The alert's name and message, if so many files, directories and blocks are too many for the heap."""
    share = objects * OBJECT_BYTES / max(1, heap)
    if share <= NEARLY_FULL:
        return
    yield (
        NAME,
        f"the NameNode keeps {objects:,} files and blocks in a heap of {heap >> 20} MiB, which they fill to "
        f"about {share:.0%}; when it is full, HDFS does not start any more. Merge the archive's small files "
        "(`sluice archive compact`; see whether the DAG compaction is paused or fails), or give it more: "
        "heaps: {namenode: ...} in include/settings.yaml, then `sluice down` and `sluice up`",
    )
