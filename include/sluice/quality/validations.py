"""The files of a day's comparisons in Data Docs: validations, and their pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from sluice.runtime.settings import Settings
from sluice.storage.reconciled import KEPT

VALIDATIONS, PAGES = "validations", "data_docs/validations"


def forget(settings: Settings, run_name: str, kept: int = KEPT) -> int:
    """Delete all but the newest comparisons of that name, in each suite; returns how many went.

    Great Expectations itself keeps all. Call it before the index is written, which lists what is there.
    """
    gone = 0
    for base in (VALIDATIONS, PAGES):
        for runs in _runs(settings.home / base, run_name):
            for old in sorted(runs.iterdir())[: -kept or None]:  # named by their times
                shutil.rmtree(old)
                gone += 1
    return gone


def _runs(base: Path, run_name: str) -> Iterator[Path]:
    """The folder of that name in each suite's."""
    if base.is_dir():
        for suite in base.iterdir():
            if (suite / run_name).is_dir():
                yield suite / run_name
