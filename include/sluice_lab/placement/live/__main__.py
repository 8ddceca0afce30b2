"""The runs of a laboratory that is apart: ``python -m sluice_lab.placement.live FOLDER RUNS [quick]``."""

from __future__ import annotations

import sys
from pathlib import Path

from sluice_lab.placement.live.apart import enter_network

enter_network()  # before anything starts a thread: numpy starts some

import psutil  # noqa: E402
from kafka.errors import KafkaError  # noqa: E402

from sluice.collection.errors import AgentError  # noqa: E402
from sluice.collection.metrics import MetricsUnreachable  # noqa: E402
from sluice_lab.placement.live import experiments  # noqa: E402
from sluice_lab.placement.live.bed import say  # noqa: E402
from sluice_lab.placement.live.scenarios import QUICK, TIMES  # noqa: E402
from sluice_lab.processes import LaboratoryFailed  # noqa: E402


def main(folder: str, runs: str, *how: str) -> None:
    plan = experiments.LivePlan(int(runs), QUICK if "quick" in how else TIMES)
    try:
        experiments.measure(plan, experiments.LiveRuns(Path(folder)), say)
    except (LaboratoryFailed, AgentError, MetricsUnreachable, KafkaError, psutil.Error) as error:
        sys.exit(f"sluice: {error}: the runs that are over are kept; run the command again to go on")


if __name__ == "__main__":
    main(*sys.argv[1:])
