"""Keeps HBase from starting with another clock than HDFS's.

HBase tells the newer of two cells by their times, also in its own table of regions. If it ran with a clock
that was hours ahead, and then with a right one, it takes these regions for where they were before until the
hours are over. When it crashes in that time, it opens them without the log that belongs to them, and what was
not in a file is lost. In `make chaos` 5,234 blocks of state were.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: Clocks are told in whole seconds, and those of several hosts differ a little.
APART_SECONDS = 60.0
POLL_SECONDS, REPORT_SECONDS, ANSWER_SECONDS, SILENT_SECONDS = 1.0, 15.0, 5.0, 30.0


def await_same_clock(settings: Settings) -> None:
    """Return once the clock is HDFS's, or HDFS says for half a minute nothing of it; log why it waits."""
    log, began, reported = DaemonLog("hbase"), time.monotonic(), 0.0
    while (ahead := _ahead_of_hdfs(settings)) is None or abs(ahead) > APART_SECONDS:
        now = time.monotonic()
        if ahead is None and now - began > SILENT_SECONDS:
            log("HDFS does not tell its time, so it is not compared with this clock")
            return
        if ahead is not None and now - reported > REPORT_SECONDS:
            log(
                f"waiting for a right clock: this one is {abs(ahead) / 60:,.0f} minutes "
                f"{'ahead of' if ahead > 0 else 'behind'} HDFS's. Set the clocks of both right"
            )
            reported = now
        time.sleep(POLL_SECONDS)


def _ahead_of_hdfs(settings: Settings) -> float | None:
    """By how many seconds this clock is ahead of HDFS's; None if HDFS does not say."""
    url = f"{settings.hdfs.webhdfs}/webhdfs/v1/?op=GETFILESTATUS&user.name={settings.hdfs.user}"
    try:
        with urlopen(url, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - http or https, from the settings
            told = answer.headers["Date"]
    except HTTPError as refused:  # it says so at a time
        told = refused.headers["Date"]
    except (URLError, OSError, ValueError):
        return None
    return time.time() - parsedate_to_datetime(told).timestamp() if told else None
