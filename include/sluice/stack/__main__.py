"""``python -m sluice.stack run NAME``, and what else supervisor and containers start (`entry.main`)."""

import sys

from sluice.stack.entry import main

sys.exit(main(sys.argv[1:]))
