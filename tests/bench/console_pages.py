"""What the bench `console` does in its browser; all times are in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sluice.runtime.days import DAY_MS
from sluice.runtime.settings import Settings
from tests.bench.served import FIRST
from tests.bench.serving import CURVE_DAYS, MINUTE_MS, POINTS, SERIES
from tests.browser.people import CONSOLE, logged_in
from tests.browser.visits import settled, until
from tests.engine.samples import line

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Shorter interactions are not told by the browser.
SHORTEST = 0.016
_PAUSE_MS = 150
_LINES = "\n".join(line(path=f"/blog/{n}", status=str(200 + n % 3)).decode() for n in range(50))

#: Write a period, and wait until the draft was tried.
_PREVIEW = """(period) => new Promise((done, failed) => {
  const [field, state] = ["period", "state"].map((id) => document.getElementById(id));
  const began = performance.now();
  let asked = false;
  const watch = new MutationObserver(() => {
    const said = state.textContent;
    if (said === "…") asked = true;
    else if (asked && said) failed(new Error(said));
    else if (asked) done(performance.now() - began);
  });
  watch.observe(state, { childList: true, characterData: true, subtree: true });
  field.value = period;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}).then((took) => took / 1000)"""

_ASK = """async (query) => {
  const began = performance.now();
  const answer = await fetch(`${document.body.dataset.base}/charts/data?${query}`);
  const size = (await answer.arrayBuffer()).byteLength;
  if (!answer.ok) throw new Error(`${answer.status} for ${query}`);
  return [(performance.now() - began) / 1000, size];
}"""

#: Collect the time from each interaction to the next paint, by the interaction.
_WATCH = """() => {
  window.paints = {};
  new PerformanceObserver((list) => {
    for (const { interactionId, duration } of list.getEntries()) {
      if (interactionId) window.paints[interactionId] = Math.max(duration, window.paints[interactionId] ?? 0);
    }
  }).observe({ type: "event", durationThreshold: 16 });
}"""


def first_pages(
    settings: Settings, browser: Browser, login: dict[str, str], rounds: int
) -> list[tuple[float, float]]:
    """Load the first page with nothing kept: seconds until all numbers are there, and KiB over the wire."""
    found = []
    for turn in range(-1, rounds):  # the first round fills what the server keeps
        with logged_in(settings, browser, login) as page:
            sizes: list[float] = []
            wire = page.context.new_cdp_session(page)
            wire.send("Network.enable")
            wire.on("Network.loadingFinished", lambda told, own=sizes: own.append(told["encodedDataLength"]))
            began = time.perf_counter()
            page.goto(f"{CONSOLE}/")
            settled(page)
            took = time.perf_counter() - began
            if turn >= 0:
                found.append((took, sum(sizes) / 1024))
    return found


def previews(page: Page, rounds: int) -> list[float]:
    """Type a period again and again: seconds until the steps and the results of 50 lines are there."""
    page.goto(f"{CONSOLE}/statistics/new")
    if not page.locator("#lines").is_visible():  # it is open where the topic has no lines
        page.locator("summary", has_text="Other lines").click()
    page.locator("#lines").fill(_LINES)
    page.get_by_role("button", name="Try these").click()
    page.get_by_role("button", name="Add a dimension").click()
    page.locator("#dimensions-0-extract-field").fill("path")
    page.locator("#results", has_text="50 of 50 lines").wait_for()
    took = [page.evaluate(_PREVIEW, ("5m", "1h")[turn % 2]) for turn in range(rounds + 1)]
    return took[1:]


def questions(task: str) -> dict[str, str]:
    """What is asked for as charts, by what it is: the parameters of the address."""
    last = FIRST + (CURVE_DAYS - 1) * DAY_MS
    wanted: dict[str, dict[str, Any]] = {
        "the last day": {},
        "the last day, 5 series and others": {"split": "path"},
        "the last day beside the one before": {"split": "path", "compare": "before"},
        "the last day, some paths": {"where": "path^=/articles/01"},
        "the last hour, 100 series": {"last": "1h", "split": "path", "top": 100},
        "a day in its minutes, 20 series": {
            "split": "path", "top": 20, "period": "1m", "since": last - DAY_MS, "until": last
        },
        "all days": {"last": "all"},
        "all days, 20 series, three metrics": {
            "last": "all", "split": "path", "top": 20, "metric": ["count", "sum", "avg"]
        },
    }  # fmt: skip
    return {name: urlencode({"task": task, **each}, doseq=True) for name, each in wanted.items()}


def widest(task: str) -> str:
    """The chart of 100 series with 10,000 points each."""
    whole = {"since": FIRST, "until": FIRST + POINTS * MINUTE_MS, "period": "1m"}
    return urlencode({"task": task, "split": "path", "top": SERIES, **whole})


def requests(page: Page, asked: dict[str, str], rounds: int) -> dict[str, list[float]]:
    """Ask for charts in turn: seconds until all bytes are there."""
    page.goto(f"{CONSOLE}/charts")
    took: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(-1, rounds):  # the first round reads the blocks
        for name, query in asked.items():
            seconds, _ = page.evaluate(_ASK, query)
            if turn >= 0:
                took[name].append(seconds)
    return took


def interactions(page: Page, task: str, rounds: int) -> dict[str, list[float]]:
    """Use the widest chart: seconds from each interaction to the next paint."""
    page.goto(f"{CONSOLE}/charts?{widest(task)}", timeout=180_000)
    settled(page)
    until(page, f"document.querySelectorAll('.legend button').length >= {SERIES}")
    page.evaluate(_WATCH)
    plot, legend = page.locator(".u-over").first, page.locator(".legend button")
    page.locator(".plot").first.focus()
    ways = {
        "an arrow key": lambda n: page.keyboard.press("ArrowLeft"),
        "a click on a point": lambda n: plot.click(position={"x": 100 + 10 * (n % 50), "y": 50}),
        "a series hidden or shown": lambda n: legend.nth(n // 2 % SERIES).click(),
    }
    found = {}
    for name, act in ways.items():
        page.evaluate("window.paints = {}")
        for turn in range(rounds):
            act(turn)
            page.wait_for_timeout(_PAUSE_MS)
        page.wait_for_timeout(1_000)
        told = [each / 1000 for each in page.evaluate("window.paints").values()]
        found[name] = told + [SHORTEST] * (rounds - len(told))
    return found


def answers(pages: Sequence[Page]) -> int:
    """How many answers with a chart's numbers the pages have got so far."""
    got = (
        "performance.getEntriesByType('resource').filter((each) => each.name.includes('/charts/data')).length"
    )
    return sum(page.evaluate(got) for page in pages)


@contextmanager
def open_charts(
    settings: Settings, browser: Browser, login: dict[str, str], task: str, number: int
) -> Iterator[Sequence[Page]]:
    """So many charts that are live, each as if in a browser of its own."""
    with ExitStack() as opened:
        pages = [opened.enter_context(logged_in(settings, browser, login)) for _ in range(number)]
        for page in pages:
            page.goto(f"{CONSOLE}/charts?{urlencode({'task': task, 'last': '1h', 'split': 'path'})}")
        for page in pages:
            page.wait_for_selector(".legend button")
            page.locator("#live", has_text="as of commit").wait_for()
        yield pages
