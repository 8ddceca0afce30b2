"""The speed layer's job with an HBase that only waits.

``python -m sluice_lab.bench.speedup_job FOLDER JOB ...`` runs it.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

from sluice.runtime.settings import Settings
from sluice.speed import micro_batch
from sluice_lab.bench.emulated import SlowConnections, SlowHBase

#: About what HBase takes on an idle machine (`python -m sluice_lab.bench hbase`).
CALL_SECONDS, MIB_SECONDS = 0.005, 0.01


def main() -> None:
    folder, job = sys.argv[1:3]

    def connections(settings: Settings) -> SlowConnections:
        return SlowConnections(folder, CALL_SECONDS, MIB_SECONDS, settings.postgres.url())

    def hbase(settings: Settings) -> SlowHBase:
        return SlowHBase(Path(folder), CALL_SECONDS, MIB_SECONDS)

    setattr(micro_batch, "Connections", SimpleNamespace(of=connections))  # noqa: B010 - a double
    setattr(micro_batch, "HBase", SimpleNamespace(of=hbase))  # noqa: B010 - a double
    sys.argv = sys.argv[2:]
    runpy.run_path(job, run_name="__main__")


if __name__ == "__main__":
    main()
