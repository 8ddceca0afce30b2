"""Print the open advisories and those on the reasoned list; exit with 1 if something is to be done."""

from __future__ import annotations

import datetime
import sys

from sluice.stack.jars import JarsMissing
from tests.pins import accepted, advisories, pinned, report


def main() -> int:
    try:
        pins = pinned.all_pins()
    except JarsMissing as missing:
        print(f"audit: {missing}", file=sys.stderr)
        return 1
    made = report.Report.of(pins, advisories.load(), accepted.load())
    print(made.text(datetime.date.today()))
    return 1 if made.failed(datetime.date.today()) else 0


if __name__ == "__main__":
    sys.exit(main())
