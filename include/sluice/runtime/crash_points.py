"""Points where a test may kill a job of the platform; nothing is cleaned up, as by kill -9.

``SLUICE_FAULT=after_blocks`` kills the process when it reaches the point of that name;
``SLUICE_FAULT=after_commit:3`` kills it when it reaches the point for the third time.
``SLUICE_FAULTS=<directory>`` kills a process that reaches a point whose name is a file there. It deletes the
file first, so each file causes one death; this also works for a process that was started long ago by
something else. Without these variables nothing happens.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Literal

#: In this order: a task of a batch wrote its first blocks of state; it wrote its last; all blocks of the
#: batch are written but none is committed; they are committed but not yet projected; some of their results
#: are projected, which is not recorded yet; a driver stopped a topic but holds its lock; it released the
#: topic; another one has the topic's lock but is not its owner yet; it is the owner but has read nothing; an
#: archive file is written under its temporary name but not claimed; it is claimed but not yet in the index; a
#: backfill's blocks of a day are written but nothing points to them; they are pointed to but their results
#: are not yet projected; periods with damaged blocks are set aside, and the batch is not counted again yet; a
#: rebuild has set its periods aside; its blocks of a day are written, or staged, but not switched; they are
#: switched but their results are not yet projected; a topic is deleted from Kafka but not forgotten in
#: PostgreSQL; a portion of replayed lines is in Kafka; a merged archive file is in the index; one of
#: the files that it replaced is deleted; files beyond retention are out of the index; a portion of old
#: commits is folded but not committed; what becomes of the sums is noted, before lines are erased in a file;
#: the file without them is in the index, and the sums are less.
Point = Literal[
    "state_put",
    "state_written",
    "after_blocks",
    "after_commit",
    "projected",
    "topic_stopped",
    "topic_released",
    "topic_locked",
    "topic_taken",
    "archive_before_rename",
    "archive_after_rename",
    "backfill_blocks",
    "backfill_replaced",
    "set_aside",
    "rebuild_begun",
    "rebuild_blocks",
    "rebuild_staged",
    "rebuild_switched",
    "topic_deleted",
    "replay_sent",
    "archive_merged",
    "archive_replaced_deleted",
    "archive_expired",
    "commits_folded",
    "erasure_noted",
    "archive_redacted",
]

_reached: Counter[str] = Counter()


def crash_point(point: Point) -> None:
    if _counted_down(point) or _taken(point):
        os.kill(os.getpid(), signal.SIGKILL)


def _counted_down(point: Point) -> bool:
    wanted, _, times = os.environ.get("SLUICE_FAULT", "").partition(":")
    if wanted != point:
        return False
    _reached[point] += 1
    return _reached[point] == int(times or 1)


def _taken(point: Point) -> bool:
    directory = os.environ.get("SLUICE_FAULTS")
    if not directory:
        return False
    try:
        (Path(directory) / point).unlink()
    except FileNotFoundError:
        return False
    return True
