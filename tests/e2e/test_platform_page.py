"""The console's page about the running platform: a daemon that is killed turns red, and green again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.running import Platform, wait_until
from tests.plugins.test_api_live import logged_in

pytestmark = pytest.mark.e2e

PAGE = "/sluice/console/platform"
#: The page's own bound is 15 s (tests/plugins/test_platform_page.py); a busy machine may need more.
RED_SECONDS, GREEN_SECONDS = 60.0, 240.0
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
    def is_(state: str) -> bool:
        now = shown.states()
        return (now[DAEMON], now[BOX] == "broken") == (state, state == "broken")

    wait_until(lambda: is_("works"), GREEN_SECONDS, f"{DAEMON} is not healthy at first")
    platform.kill_daemon("sql")
    wait_until(lambda: is_("broken"), RED_SECONDS, f"{DAEMON} does not turn red")
    wait_until(lambda: is_("works"), GREEN_SECONDS, f"{DAEMON} does not turn green again")


def test_the_page_knows_the_whole_platform(shown: Shown) -> None:
    def all_known() -> bool:
        return "unknown" not in {shown.states()[name] for name in ("box-edges", "box-speed", "box-archive")}

    wait_until(all_known, GREEN_SECONDS, "parts of the flow are not known")
    text = shown.text()
    for dag in ("collection", "speed_layer", "archive"):
        assert re.search(rf'href="/dags/{dag}/runs/[^"]+" data-airflow', text), dag
    assert "Counted online" in text
