"""Puts the tests into the network of the instance that they use, if it runs.

Import it first, because a process that has started threads cannot enter (numpy starts some).
"""

from __future__ import annotations

import os

from sluice.stack.networking import network
from tests.bring_up import instance_settings

if not os.environ.get("PYTEST_XDIST_WORKER"):  # a worker begins where its starter is
    network.enter(instance_settings())
