"""Stand for a job on another host until SIGTERM, or until the job ends.

python jobs/shadow.py --host h3 archiver-2 -- --member archiver-2
"""

from __future__ import annotations

import argparse

from sluice.collection.errors import AgentError
from sluice.runtime.settings import get_settings
from sluice_hosts.jobs.far import FarJob
from sluice_hosts.jobs.shadow import Shadow, stopped_by_signal
from sluice_hosts.trust import enrolment


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", required=True, help="the host's name in hosts.yaml")
    parser.add_argument("member", help="the member of the job")
    parser.add_argument("arguments", nargs="*", help="the job's own")
    given = parser.parse_args()
    settings, stop = get_settings(), stopped_by_signal()
    try:
        job = FarJob(settings, enrolment.known(settings, given.host), given.member)
        return Shadow(settings, given.member, given.host, job, stop).run(given.arguments, print)
    except AgentError as error:
        print(error, flush=True)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
