"""Compute a day of event time from the archive into Hive: `logs` and `task_results`.

    python jobs/nightly.py --topic logs --day 2015-05-17 --run-id manual [--marked]

With --marked the days that got late lines since they were computed are computed again as well.
"""

from __future__ import annotations

import argparse
import logging
from datetime import date

from sluice.settings import get_settings
from sluice.statistics import offline
from sluice.statistics.spark import session


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", required=True)
    parser.add_argument("--day", required=True, type=date.fromisoformat, help="YYYY-MM-DD, UTC")
    parser.add_argument("--marked", action="store_true", help="and every day that must be computed again")
    parser.add_argument("--run-id", required=True, help="the name under which the days computed are found")
    args = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    for chatty in ("py4j", "pyhive"):
        logging.getLogger(chatty).setLevel(logging.WARNING)

    settings = get_settings()
    days = offline.days_to_compute(settings, args.topic, args.day, marked=args.marked)
    spark = session(settings, f"sluice nightly {args.topic} {args.day}", config=offline.SPARK_CONFIG)
    try:
        offline.run(spark, settings, args.topic, days, args.run_id)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
