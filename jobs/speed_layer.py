"""Count for ever: from Kafka into the state and the online results.

    python jobs/speed_layer.py [--topic NAME ...] [--member NAME] [--progress PATH]

Without --topic it counts `logs` and every topic that a task reads, new ones too; with the setting
`speed.drivers` above 1, those that are the driver's. Spark starts with the first batch that needs it, or at
once if the driver may have another one to wait for: on another host, or as a successor. SIGTERM stops it
after the batch under way. Exit codes: 0 stopped, 1 could not start, 3 another speed layer counts the same
topic or is the same driver. A driver that was ever started on another host may still run there: its topics
are waited for instead.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from functools import partial
from pathlib import Path

from sluice.metrics import load_team
from sluice.runtime import garbage
from sluice.runtime.settings import get_settings, newest
from sluice.runtime.thread_dump import dump_on_signal
from sluice.spark.on_demand import OnDemand
from sluice.spark.session import SPEED_LAYER as CONFIG
from sluice.spark.session import session
from sluice.speed.driver import run
from sluice.speed.own_topics import Named, OwnTopics
from sluice.speed.progress import SpeedProgress
from sluice.stack.job_hosting import job_hosting
from sluice.stack.jobs import SPEED_LAYER, drivers
from sluice.stack.progress import DriverState, progress_file
from sluice.storage.tables.commits import FencedOut

FENCED = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", action="append", default=[], help="count only this topic (repeatable)")
    parser.add_argument(
        "--member", default=SPEED_LAYER, help="this driver's name among several (default: %(default)s)"
    )
    parser.add_argument(
        "--progress", type=Path, help="where to write the progress (default: the instance's run directory)"
    )
    given = parser.parse_args()
    dump_on_signal()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    for chatty in ("kafka", "py4j"):
        logging.getLogger(chatty).setLevel(logging.WARNING)

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())

    load_team()
    settings = get_settings()
    progress = SpeedProgress(given.progress or progress_file(settings, given.member), given.member)
    if len(drivers(settings)) > 1 and not (given.topic or progress.waits or progress.owned):
        logging.error("another process is the driver %s: see `sluice status`", given.member)
        return FENCED
    named = Named(given.topic) if given.topic else None
    own = named or OwnTopics(
        settings,
        given.member,
        lambda: drivers(newest(settings)),
        lambda: given.progress is not None or job_hosting().known_elsewhere(settings, given.member),
    )
    spark = OnDemand(partial(session, settings, "sluice speed layer", config=CONFIG))
    if given.progress is not None or progress.waits:
        spark.session()
    garbage.loaded()
    try:
        run(spark, settings, progress, own, stopping)
    except FencedOut as error:
        progress.state(DriverState.FENCED)
        logging.error("%s", error)
        return FENCED
    finally:
        spark.stop()
    progress.state(DriverState.STOPPED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
