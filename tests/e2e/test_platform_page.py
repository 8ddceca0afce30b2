"""The console's page about the running platform: a daemon that is killed turns red, and green again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from sluice.stack import supervisord
from sluice_lab.waiting import until
from tests.e2e.running import TIMEOUT_SECONDS, Platform
from tests.plugins.live import logged_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

PAGE = "/sluice/console/platform"
#: The page's own bound is 15 s (tests/plugins/test_platform_page.py); a busy machine may need more.
RED_SECONDS, GREEN_SECONDS = 60.0, 240.0
POLL_SECONDS = 0.5  # the server makes a page for each look
DAEMON, BOX = "daemon-sql", "box-reconcile"


class Shown:
    """The page as a viewer gets it."""

    def __init__(self, http: httpx.Client, headers: dict[str, str]) -> None:
        self._http, self._headers = http, headers

    def text(self, path: str = PAGE) -> str:
        answer = self._http.get(path, headers=self._headers)
        assert answer.status_code == 200, answer.text[:300]
        return answer.text

    def states(self) -> dict[str, str]:
        """The state of each box and daemon, by its id."""
        found = re.findall(r'<li class="box box-(\w+)[^"]*" id="([\w-]+)"', self.text(f"{PAGE}/now"))
        return {name: state for state, name in found}


@pytest.fixture
def shown(platform: Platform) -> Iterator[Shown]:
    settings = platform.settings
    with (
        httpx.Client(base_url=settings.airflow.url, timeout=120, trust_env=False) as http,
        logged_in(settings, http, "viewer") as headers,
    ):
        yield Shown(http, headers)


def test_a_killed_daemon_turns_its_box_red_and_green_again(platform: Platform, shown: Shown) -> None:
    """The SQL endpoint: no other test's lines depend on it, and it takes seconds to start."""

    def red() -> bool:
        """Once is enough, unless a busy machine looks at the page less often than the daemon takes."""
        if supervisord.programs(platform.settings)["sql"].state == "RUNNING":
            platform.kill_daemon("sql")
        now = shown.states()
        return now[DAEMON] == now[BOX] == "broken"

    def green() -> bool:
        return shown.states()[DAEMON] == "works"

    until(green, GREEN_SECONDS, f"{DAEMON} is healthy at first", POLL_SECONDS)
    until(red, RED_SECONDS, f"{DAEMON} turns red", POLL_SECONDS)
    until(green, GREEN_SECONDS, f"{DAEMON} turns green again", POLL_SECONDS)


def test_the_page_knows_the_parts_that_run_and_their_runs(shown: Shown) -> None:
    def known() -> bool:
        now = shown.states()
        return "unknown" not in {now[name] for name in ("box-edges", "box-speed", "box-archive")}

    def linked() -> bool:
        text = shown.text()
        return all(f'href="/dags/{dag}/runs/' in text for dag in ("collection", "speed_layer", "archive"))

    until(known, GREEN_SECONDS, "all of the flow is known", POLL_SECONDS)
    until(linked, GREEN_SECONDS, "runs are known", POLL_SECONDS)
