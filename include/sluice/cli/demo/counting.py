"""Wait until every line is counted, and read the hops of the lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING

from sluice.cli.demo.problems import TOPIC, look
from sluice.cli.output.phases import Say

if TYPE_CHECKING:
    from sluice.quality.hops import Hops
    from sluice.runtime.settings import Settings
    from sluice.speed.routed.report import GroupingReport

#: The demo gives up when nothing has moved for this long; a large log may well take longer in all.
STILL_SECONDS = 180.0
POLL_SECONDS = 1.0


def wait_counted(settings: Settings, say: Say) -> Hops:
    """Wait until the ledger has every byte of the files and the archive has passed Kafka's end."""
    from sluice.quality.audit import audit

    def look_now() -> tuple[bool, str, Hops]:
        hops = audit(settings, TOPIC, hive=False)
        waiting = [w for w in hops.in_flight if "nightly_batch" not in w]
        return not waiting and hops.ok, progress(hops), hops

    return until_still(look_now, say, settings)


def progress(hops: Hops) -> str:
    """How many of the lines that were written are counted, and how many are archived.

    Lines that came twice are archived twice, but not counted again; the archive may have some first.
    """
    written, dead = hops.lines_read, hops.dead_lettered
    twice = max(hops.doubled, hops.archived - written)
    return (
        f"{hops.online:,} of {written:,} counted"
        + (f" and {dead:,} dead-lettered" if dead else "")
        + f", {hops.archived:,} of {written + twice:,} archived"
        + (f" ({twice:,} came twice)" if twice else "")
    )


def until_still(look_now: Callable[[], tuple[bool, str, Hops]], say: Say, settings: Settings) -> Hops:
    """Look until it is done, or until nothing has moved for `STILL_SECONDS`.

    In the second case the final audit says what is wrong.
    """
    moved, before = time.monotonic(), ""
    while True:
        done, text, hops = look_now()
        say(text)
        if done:
            return hops
        if text != before:
            moved, before = time.monotonic(), text
        elif time.monotonic() - moved > STILL_SECONDS:
            say(f"{text}; nothing moved for {STILL_SECONDS:.0f} s: {look(settings)}")
            return hops
        time.sleep(POLL_SECONDS)


def whole_audit(settings: Settings, today: date) -> Hops:
    """Read the final hops, with Hive; days before `today` are computed.

    They are not read at one instant, so they are read again, up to twice, if they do not agree.
    """
    from sluice.quality.audit import audit

    hops = audit(settings, TOPIC, today=today)
    for _ in range(2):
        if hops.ok and not hops.in_flight:
            break
        time.sleep(POLL_SECONDS)
        hops = audit(settings, TOPIC, today=today)
    return hops


def grouping_reports(settings: Settings) -> list[GroupingReport]:
    """The speed layer's report on each task's grouping; none if it was restarted since."""
    from sluice.speed.routed.report import NothingCounted, reports
    from sluice.stack.jobs import speed_layer

    with suppress(NothingCounted):
        return reports(speed_layer(settings))
    return []
