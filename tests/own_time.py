"""Another clock for one module alone: all other threads of the process keep theirs."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def own_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **replaced: Callable[..., Any]) -> None:
    """Replace functions of `time`, by their names, where this module calls `time.NAME`."""
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **replaced}))
