"""What a speed layer writes about a routed task."""

from __future__ import annotations

from typing import Any

from sluice.grouping.auto import Auto, BatchFigures

FIGURES = BatchFigures(
    tuples=200_000, groups=5_000, rows=18_000, cost=2e-6, state=24, top=0.3, widest=0.5, workers=2
)


def document(task: str, **changes: Any) -> dict[str, Any]:
    """What is reported of a task that auto keeps combined."""
    decided = Auto().observe(FIGURES).document()
    return {
        "task": task,
        "label": "3v2",
        "topic": "logs",
        "asked": "auto",
        "strategy": "combine",
        "error": None,
        "decision": decided,
        "plan": None,
        "imbalance": None,
        "load": [],
        "hot": [{"key": ["10.0.0.1", "\x1b[2J"], "share": 0.3, "error": 0.0, "workers": []}],
        "batch_at": "2026-11-21T10:00:00.000+00:00",
        **changes,
    }


ROUTED = document(
    "routed",
    label="4v1",
    asked={"strategy": "planned", "half_life": 2.0},
    strategy="planned",
    decision=None,
    plan={"expected": 800.0, "listed": 12, "split": 1, "buckets": 8192},
    imbalance={"last": 0.01, "hour": 0.02, "worst": 0.5},
    load=[
        {"worker": 0, "tuples": 600, "seconds": 0.1, "time": 1e-6},
        {"worker": 1, "tuples": 200, "seconds": 0.1, "time": 2e-6},
    ],
    hot=[{"key": ["/a"], "share": 0.125, "error": 0.01, "workers": [0, 1]}],
)
