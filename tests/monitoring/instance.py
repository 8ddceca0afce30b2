"""An instance's directory as running jobs and a watch leave it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sluice.archive.heartbeat import Heartbeat
from sluice.monitoring import watch_progress
from sluice.runtime.settings import Settings
from sluice.speed.progress import SpeedProgress
from sluice.stack.jobs import ARCHIVER, SPEED_LAYER
from sluice.stack.progress import (
    ArchivedTopic,
    ArchivingState,
    PartitionProgress,
    PartitionState,
    WatchProgress,
    progress_file,
)
from tests.cli.routed import ROUTED, document

LOOK: dict[str, Any] = {
    "daemons": {"kafka": "", "hbase": "no region server is registered"},
    "agents": {
        "web1": {"answers": True, "fill": 0.25, "blocks": 5.0, "put": 9.0, "taken": 4.0},
        "web2": {"answers": False},
    },
    "lag": {
        "logs": {"speed": {"records": 3, "seconds": 1.5}, "archive": {"records": 30, "seconds": None}},
    },
    "books": {
        "archive": {"logs": {"files": 2, "lines": 70, "bytes": 900, "lost_records": 4}},
        "tasks": {"logs": {"active": 2, "paused": 1, "failed": 0}},
        "reconciled": {"logs": {"agrees": 5, "differs": 1}},
        "unpublished": {"logs": 1},
        "alerts": {"collection": 2},
    },
    "disks": {"home": {"size": 900, "free": 300, "reserve": 225}},
    "held": {"intake": True, "layers": False},
}


def settings_of(home: Path) -> Settings:
    return Settings(instance="test", home=home)


def running(home: Path, topic: str = "logs") -> Settings:
    """The settings of an instance whose files say all that is shown."""
    settings = settings_of(home)
    progress = SpeedProgress(progress_file(settings, SPEED_LAYER))
    reports = [document("combined", label="3v2"), ROUTED]
    labels = [report["label"] for report in reports]
    for seq in (1, 2):
        progress.batch(
            topic,
            {"lines": 10, "doubled": 1, "counted": 8, "dead": 1, "bytes": 500, "pass_us": 250_000}
            | {"freshness_ms": 9_000, "unmatched": 1},
            {
                "freshness": {"0.5": 7, "1": 3, "+Inf": 0},
                "dead_reasons": {"no event time": 1},
                "task_lines": dict.fromkeys(labels, 8) | {"3v1": 100},
                "task_skipped": {"4v1": 2},
                "task_unmatched": {"4v1": 3},
                "task_too_long": {"4v1": 1},
            },
            seq=seq,
            blocks=12,
            durations={"pass": 180, "commit": 20},
            grouping={report["label"]: report for report in reports},
        )
    progress.projected(topic, 1, 90, 35)
    part = PartitionProgress(state=PartitionState.ARCHIVING, position=7, buffered=6, files=1, lines=20)
    heartbeat = Heartbeat(progress_file(settings, ARCHIVER))
    heartbeat.beat(topic, ArchivedTopic(state=ArchivingState.ARCHIVING, partitions={0: part, 1: part}))
    watch_progress.write(settings, looked())
    return settings


def looked(**changes: Any) -> WatchProgress:
    """What the watch has just seen."""
    return WatchProgress(updated_at=datetime.now(UTC), **{**LOOK, **changes})
