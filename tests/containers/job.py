"""The demo's job in a platform that runs already. It is piped into a container, so it stands alone.

Its last line is JSON: whether the layers agree, the seconds of each phase, the number of lines.
"""

from __future__ import annotations

import json

from sluice.cli.demo.command import prove
from sluice.cli.output.phases import Phases
from sluice.metrics import load_team
from sluice.runtime.settings import Settings
from sluice.stack.memory import PeakMemory

if __name__ == "__main__":
    load_team()
    settings = Settings()
    phases = Phases()
    with PeakMemory(settings) as memory:
        report = prove(settings, None, phases, memory)
    print(report.text())
    found = {"agrees": report.agrees, "seconds": phases.seconds, "lines": report.hops.lines_read}
    print(json.dumps(found), flush=True)
