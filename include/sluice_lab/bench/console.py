"""The console in a real browser: its first page, a preview, charts of a million results, many live charts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.runtime.settings import Settings
from sluice_lab.bench import console_pages, serving, stack
from sluice_lab.bench.cpu import PARTS, Cpu, between
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.served import Served
from sluice_lab.bench.serving import p95
from sluice_lab.browser import tools
from sluice_lab.browser.people import known, logged_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAME = "console"
FIRST_LIMIT, WIRE_LIMIT, PREVIEW_LIMIT = 1.0, 200.0, 1.0
REQUEST_LIMIT, PAINT_LIMIT, LIVE_LIMIT = 0.5, 0.1, 0.1
CHARTS = 50


@dataclass(frozen=True)
class ConsoleRounds:
    """How often each thing is done, and for how many seconds the processors' time is taken."""

    loads: int = 40
    previews: int = 60
    requests: int = 20  # of each question
    interactions: int = 15  # of each kind
    seconds: float = 60.0


QUICK = ConsoleRounds(loads=8, previews=10, requests=3, interactions=5, seconds=15.0)

WHAT = """\
In the headless Chromium of the tests, on Airflow's server of instance `{instance}`. *First page*: loaded
{loads} times, each time by a browser that has kept nothing, until all newest numbers are there; bytes as
they come over the wire. *Preview*: from a change of a field until 50 lines were tried, {previews} times;
the editor's pause of 0.35 s is in it. *Charts*: of a task with {stored:,} stored results of three metrics a
point; 8 questions {requests} times each, from one page, until all bytes are there. *Interactions*: with a
chart of 100 series of 10,000 points, {interactions} times each: from the event to the next paint, as the
browser's event timing tells it (in steps of 8 ms; at most 16 ms count as 16); the slowest counts. *Live*:
the CPU time that the platform takes with {charts} open charts, less what it takes without them, each for
{seconds:.0f} s: at rest, and while a commit a second changes what the charts show. 32 of them are told by
events, and the others ask every 10 s."""


@dataclass(frozen=True)
class ConsoleFigures:
    """Everything that was measured; times are in seconds."""

    first: Sequence[tuple[float, float]]  # and KiB
    previews: Sequence[float]
    requests: Mapping[str, Sequence[float]]
    widest: Sequence[float]
    paints: Mapping[str, Sequence[float]]
    live: Mapping[str, Mapping[str, float]]  # cores by part, by what happens meanwhile
    answers: Mapping[str, float]  # a second, to all live charts


def run(quick: bool = False) -> Outcome:
    size = QUICK if quick else ConsoleRounds()
    tools.modules()  # before the instance's own network is entered, which has no way to the registry
    with stack.running() as settings, serving.served(settings, serving.all_paths(), "1m") as curves:
        curves.publish(range(serving.CURVE_DAYS - 1))
        curves.commit(curves.starts(serving.CURVE_DAYS - 1))
        stack.say(f"{NAME}: curves are stored")
        with tools.started() as browser, known(settings, "user") as login:
            found = measured(settings, browser, login, curves, size)
        what = WHAT.format(
            instance=settings.instance, loads=size.loads, previews=size.previews, requests=size.requests,
            stored=len(serving.all_paths()) * len(curves.starts(0)) * serving.CURVE_DAYS,
            interactions=size.interactions, charts=CHARTS, seconds=size.seconds,
        )  # fmt: skip
    return outcome(found, what, quick)


def measured(
    settings: Settings, browser: Browser, login: dict[str, str], curves: Served, size: ConsoleRounds
) -> ConsoleFigures:
    """Do everything, one thing after the other."""
    first = console_pages.first_pages(settings, browser, login, size.loads)
    stack.say(f"{NAME}: first page {p95([took for took, _ in first]):.3f} s at the 95th percentile")
    with logged_in(settings, browser, login) as page:
        previews = console_pages.previews(page, size.previews)
        requests = console_pages.requests(page, console_pages.questions(curves.name), size.requests)
        (widest,) = console_pages.requests(page, {"": console_pages.widest(curves.name)}, 3).values()
        stack.say(f"{NAME}: charts {p95([s for took in requests.values() for s in took]):.3f} s")
        paints = console_pages.interactions(page, curves.name, size.interactions)
    live, answers = all_live(settings, browser, login, curves, size.seconds)
    return ConsoleFigures(first, previews, requests, widest, paints, live, answers)


def all_live(
    settings: Settings, browser: Browser, login: dict[str, str], curves: Served, seconds: float
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """What the open charts cost the platform, in cores by part, by what happens meanwhile.

    And how many answers a second all charts together got: that they were live indeed.
    """
    beats = {"at rest": None, "a commit a second": lambda: curves.commit([serving.newest(curves)])}
    cpu, without, found = Cpu(settings), dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for name, beat in beats.items():
        with serving.repeating(beat):
            without[name] = spent(cpu, seconds)
    answers = {}
    with console_pages.open_charts(settings, browser, login, curves.name, CHARTS) as pages:
        for name, beat in beats.items():
            before, began = console_pages.answers(pages), time.monotonic()
            with serving.repeating(beat):
                found[name] = between(without[name], spent(cpu, seconds))
            answers[name] = (console_pages.answers(pages) - before) / (time.monotonic() - began)
            stack.say(f"{NAME}: {CHARTS} live charts, {name}: {sum(found[name].values()):.3f} cores")
    return found, answers


def spent(cpu: Cpu, seconds: float) -> dict[str, float]:
    """The cores that each part of the platform takes now; the bench and its browser are none of them."""
    before, began = cpu.seconds(), time.monotonic()
    time.sleep(seconds)
    after, took = cpu.seconds(), time.monotonic() - began
    own = {*PARTS.values()}
    return {part: used / took for part, used in between(before, after).items() if part in own}


def outcome(found: ConsoleFigures, what: str, quick: bool) -> Outcome:
    asked = [seconds for took in found.requests.values() for seconds in took]
    first = [took for took, _ in found.first]
    bars = [
        Bar("first page, 95th percentile", p95(first), FIRST_LIMIT, "most", "s"),
        Bar("first page over the wire", max(size for _, size in found.first), WIRE_LIMIT, "most", "KiB"),
        Bar("preview, 95th percentile", p95(found.previews), PREVIEW_LIMIT, "most", "s"),
        Bar("chart request, 95th percentile", p95(asked), REQUEST_LIMIT, "most", "s"),
        Bar("100 series x 10,000 points, slowest interaction to next paint",
            max(max(took) for took in found.paints.values()), PAINT_LIMIT, "most", "s"),
        *(Bar(f"{CHARTS} live charts, {name}", sum(parts.values()), LIVE_LIMIT, "most", "cores")
          for name, parts in found.live.items()),
    ]  # fmt: skip
    times = {"first page": first, "preview": found.previews, **found.requests,
             "100 series of 10,000 points": found.widest, **found.paints}  # fmt: skip
    rows: list[list[Cell]] = [
        [name, len(took), *(1000 * each for each in (statistics.median(took), p95(took), max(took)))]
        for name, took in times.items()
    ]
    columns = ["", "times", "median", "95th percentile", "largest"]
    parts: list[list[Cell]] = [
        [part, *(live.get(part, 0.0) for live in found.live.values())]
        for part in sorted({part for live in found.live.values() for part in live})
    ]
    parts.append(["answers to the charts, a second", *(found.answers[name] for name in found.live)])
    tables = [
        Table("Milliseconds", columns, rows),
        Table(f"Cores that {CHARTS} live charts take", ["part", *found.live], parts),
    ]
    return Outcome(NAME, what, bars, tables, quick=quick)
