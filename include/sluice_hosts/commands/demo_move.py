"""Write the log on the hosts, and meanwhile take one collector to another host."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from sluice.cli.demo.problems import TOPIC, DemoError
from sluice.cli.demo.report import MoveReport
from sluice.cli.demo.steps import the_log
from sluice.cli.output.phases import Say
from sluice_hosts.commands.demo_hosts import MOVED, Layout, files

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

#: Writing the log takes this time, so lines come before, during and after the move.
REPLAY_SECONDS = 60.0


def replay_and_move(settings: Settings, log: Path | None, layout: Layout, say: Say) -> MoveReport:
    """Write the log on the hosts; move a collector as soon as lines come."""
    from sluice.collection.pattern import Pattern
    from sluice.traffic import replay
    from sluice_hosts.agents import moving

    log, lines = the_log(settings, log)
    patterns = [files(settings, host, name) for name, host in layout.front_ends.items()]
    servers = [replay.Server(Pattern.parse(each, settings.home)) for each in patterns]
    written, begun, given_up = [0], Event(), Event()

    def progress(count: int, _: int) -> None:
        if given_up.is_set():
            raise DemoError("the replay was given up")
        written[0] = count
        begun.set()

    def write() -> replay.Replayed:
        try:
            return replay.replay(
                settings, log, lines / REPLAY_SECONDS or None, progress=progress, servers=servers
            )
        finally:
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        replaying = pool.submit(write)
        try:
            begun.wait()
            began, before = time.time(), written[0]
            moving.move(settings, MOVED, layout.goes_to, say)
            ended, during = time.time(), written[0] - before
            say(f"{MOVED} moved to {layout.goes_to} in {ended - began:.1f} s; the log is written on")
            done = replaying.result()
        finally:
            given_up.set()
    say(f"{done.lines:,} lines in {done.files} files; {MOVED} moved to {layout.goes_to}")
    return _report(settings, layout, began, ended, during)


def _report(settings: Settings, layout: Layout, began: float, ended: float, lines: int) -> MoveReport:
    from sluice.collection import deploy
    from sluice.transmission.arrivals import arrivals, longest_pause

    deploy.wait_drained(settings)
    # What came a while before says since when a front-end had sent nothing.
    since, until = int(began * 1_000), int(ended * 1_000)
    came = arrivals(settings, TOPIC, since - int(REPLAY_SECONDS * 1_000))
    return MoveReport(
        front_ends=layout.front_ends,
        collectors=layout.collectors,
        moved=MOVED,
        to=layout.goes_to,
        seconds=round(ended - began, 1),
        lines=lines,
        pauses={
            name: round(longest_pause(came.get(name, ()), since, until), 2) for name in layout.front_ends
        },
    )
