"""Compute a day of event time from the archive into Hive: `logs` and `task_results`.

    python jobs/nightly.py --topic logs [--topic more] --day 2015-05-17 --run-id manual [--marked] [--missed]

With --marked it also computes again the days that got late lines since they were computed. With --missed it
also computes the days of the last month whose lines came after their night, or whose night was not run. A
topic that fails does not hold up the others; the job's exit status is 1 then.
"""

from __future__ import annotations

import argparse
import logging
import sys
from datetime import date

from sluice.batch import offline
from sluice.metrics import load_team
from sluice.runtime.settings import get_settings
from sluice.spark.session import session


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topic", action="append", required=True, help="repeatable")
    parser.add_argument("--day", required=True, type=date.fromisoformat, help="YYYY-MM-DD, UTC")
    parser.add_argument("--marked", action="store_true", help="and every day that must be computed again")
    parser.add_argument("--missed", action="store_true", help="and every day lately that was never computed")
    parser.add_argument("--run-id", required=True, help="the name under which the computed days are found")
    args = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    for chatty in ("py4j", "pyhive"):
        logging.getLogger(chatty).setLevel(logging.WARNING)

    load_team()
    settings = get_settings()
    spark = session(settings, f"sluice nightly {args.day}", config=offline.SPARK_CONFIG)
    failed: dict[str, Exception] = {}
    try:
        for topic in args.topic:
            try:
                days = offline.days_to_compute(
                    settings, topic, args.day, marked=args.marked, missed=args.missed
                )
                offline.run(spark, settings, topic, days, args.run_id)
            except Exception as error:
                logging.exception("the night of topic %s failed", topic)
                failed[topic] = error
    finally:
        spark.stop()
    if failed:
        named = "\n".join(f"{topic} failed: {str(error)[:1_000]}" for topic, error in failed.items())
        sys.exit(f"{named}\nEach has its trace above.")


if __name__ == "__main__":
    main()
