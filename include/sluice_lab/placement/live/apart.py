"""A process of the laboratory with a network of its own: what it starts takes no port of this machine.

It ends with the command that began it, and all that it has started ends with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from sluice.runtime import namespace
from sluice.runtime.settings import given
from sluice_lab.processes import LaboratoryFailed, end_with_laboratory


def call(module: str, arguments: Sequence[str]) -> int:
    """Run a module that calls `enter_network`; returns its exit status.

    What it says for people comes on stderr. Raises LaboratoryFailed.
    """
    if not namespace.possible():
        raise LaboratoryFailed(
            "this machine lets this user make no network namespace, in which hosts are emulated: "
            "allow it (docs/security.md), or leave the live part out with --live-runs 0"
        )
    environment = {name: value for name, value in os.environ.items() if name not in given()}
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        env=environment, stdout=subprocess.DEVNULL, preexec_fn=end_with_laboratory,  # noqa: PLW1509
    )  # fmt: skip
    return running.wait()


def enter_network() -> None:
    """Give this process a network of its own; before it starts a thread. Raises NoNamespace."""
    namespace.create()
