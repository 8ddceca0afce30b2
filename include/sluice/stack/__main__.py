"""``python -m sluice.stack``: what supervisor and containers start (see `entry.main`)."""

import sys

from sluice.stack.entry import main

sys.exit(main(sys.argv[1:]))
