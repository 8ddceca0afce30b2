"""Count periods of a topic again from the archive: carry out a rebuild of the book.

    python jobs/rebuild.py --id 7

A rebuild that died goes on where it was; one that is finished is left alone.
"""

from __future__ import annotations

import argparse
import logging

from sluice.batch import offline
from sluice.batch.rebuild import rebuild
from sluice.metrics import load_team
from sluice.runtime.settings import get_settings
from sluice.spark.session import session


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--id", required=True, type=int, help="the rebuild's number")
    number = parser.parse_args().id
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)

    load_team()
    settings = get_settings()
    spark = session(settings, f"sluice rebuild {number}", config=offline.SPARK_CONFIG)
    try:
        rebuild.run(spark, settings, number)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
