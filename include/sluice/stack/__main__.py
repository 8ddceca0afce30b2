"""``python -m sluice.stack run|health NAME``: what the supervisor and the containers start."""

import sys

from sluice.stack.entry import main

sys.exit(main(sys.argv[1:]))
