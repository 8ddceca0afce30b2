"""Count for ever: from Kafka into the state and the online results.

    python jobs/speed_layer.py [--topic NAME ...]

Without --topic it counts `logs` and every topic that a task reads, new ones too. SIGTERM stops it after the
batch under way. Exit codes: 0 stopped, 1 could not start, 3 another speed layer counts the same topic.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading

from sluice.metrics import load_team
from sluice.runtime import garbage
from sluice.runtime.settings import get_settings
from sluice.spark.session import SPEED_LAYER, session
from sluice.speed.progress import SpeedProgress, progress_path
from sluice.speed.streaming import run
from sluice.storage.commits import FencedOut

FENCED = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", action="append", default=[], help="count only this topic (repeatable)")
    topics = parser.parse_args().topic
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    for chatty in ("kafka", "py4j"):
        logging.getLogger(chatty).setLevel(logging.WARNING)

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())

    load_team()
    settings = get_settings()
    progress = SpeedProgress(progress_path(settings))
    spark = session(settings, "sluice speed layer", config=SPEED_LAYER)
    garbage.loaded()
    try:
        run(spark, settings, progress, topics, stopping)
    except FencedOut as error:
        progress.state("fenced")
        logging.error("%s", error)
        return FENCED
    finally:
        spark.stop()
    progress.state("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
