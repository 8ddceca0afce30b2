"""Deletes Data Docs of comparisons that were made too long ago; of each day only the newest are kept anyway.

The site's index lists them until the next comparison writes it again, within a day.
"""

from __future__ import annotations

import shutil
from datetime import datetime

from filelock import FileLock

from sluice.quality.expectations import FOLDERS
from sluice.runtime.settings import Settings


def delete(settings: Settings, before: datetime) -> int:
    """Delete the comparisons written before then, in each suite; returns how many folders of them went."""
    gone, moment = 0, before.timestamp()
    if not settings.home.is_dir():
        return 0
    with FileLock(settings.home / "data_docs.lock"):  # no comparison writes meanwhile
        for base in FOLDERS:
            for run in (settings.home / base).glob("*/*/*"):  # suite, topic and day, time
                if run.is_dir() and max(each.stat().st_mtime for each in (run, *run.rglob("*"))) < moment:
                    shutil.rmtree(run)
                    gone += 1
            for day in (settings.home / base).glob("*/*"):
                if day.is_dir() and not any(day.iterdir()):
                    day.rmdir()
    return gone
