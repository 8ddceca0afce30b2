"""Processes of which any may end while a test looks at them."""

from __future__ import annotations

from contextlib import suppress

import psutil


def command_line(process: psutil.Process) -> list[str]:
    """The process's command and its arguments; empty once it has ended."""
    with suppress(psutil.NoSuchProcess):  # a zombie counts as such, too
        return process.cmdline()
    return []
