"""The page about the platform, on a made-up one; the login is a double."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from sluice.monitoring.flow.asks import Said
from sluice.monitoring.flow.picture import FlowRun, Sparkline
from sluice.monitoring.flow.platform import Pictures
from sluice.monitoring.flow.seen import FlowAnswers
from sluice.runtime.settings import get_settings
from sluice.storage.tables.alerts import Alert
from tests.monitoring.flow.made import AT, healthy, hurting, nothing, seen
from tests.plugins.application import Login

PAGE = "/console/platform"
HOSTILE = "<script>alert(1)</script>\"'&"
Shows = Callable[[FlowAnswers], None]


@pytest.fixture
def shows(client: TestClient, login: Login) -> Shows:
    """Let the pages show what was seen; a viewer is logged in."""
    from sluice_airflow.console import platform

    login.as_("viewer")

    def show(found: FlowAnswers) -> None:
        one = Pictures(lambda: found)
        client.app.dependency_overrides[platform.platform] = lambda: one  # type: ignore[attr-defined]

    return show


def box(text: str, key: str) -> str:
    found = re.search(rf'<li class="box [^"]*" id="{key}">.*?</li>', text, re.S)
    assert found is not None, key
    return found[0]


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_where_all_is_well_the_page_says_so_and_what_each_part_does(client: TestClient, shows: Shows) -> None:
    shows(seen())
    text = client.get(PAGE).text
    assert "All of it works" in text
    assert "What hurts" not in text
    speed = words(box(text, "box-speed"))
    assert "✓ works" in speed
    assert "Rate 11 lines/s" in speed
    assert "Lag 80 lines, about (8 records) Oldest waits 1.5 s" in speed
    assert "Last commit 2 s ago" in speed
    assert text.count("<polyline") > 12
    assert 'href="/dags/speed_layer/runs/scheduled__speed_layer"' in text
    assert "started 5 min ago" in words(box(text, "daemon-kafka"))


def test_what_hurts_has_its_alert_its_paragraph_and_its_run(client: TestClient, shows: Shows) -> None:
    shows(hurting("it differs"))
    text = client.get(f"{PAGE}/now").text
    assert "5 things hurt" in text
    assert "✕ broken" in words(box(text, "box-topics"))
    assert "kafka: it differs" in words(box(text, "box-topics"))
    assert "! late" in words(box(text, "box-speed"))
    assert "✓ works" in words(box(text, "box-projector"))
    paragraph = re.search(r'<details class="todo" id="do-a-failed-reconciliation">.*?</details>', text, re.S)
    assert paragraph is not None
    assert "The run of <code>reconcile</code> is red" in paragraph[0]
    assert '<a href="#do-a-failed-reconciliation">' in text
    assert 'href="/dags/reconcile/runs/scheduled__reconcile" data-airflow' in text


def test_what_lost_state_leads_to_is_its_topics_list(client: TestClient, shows: Shows) -> None:
    shows(seen(alerts=Said([Alert("state", "logs: task 7v1", "a block is lost", AT)])))
    text = client.get(f"{PAGE}/now").text
    assert '<a href="/console/topics/logs/rebuilds">What is counted again</a>' in text
    shows(hurting("it differs"))
    assert "What is counted again" not in client.get(f"{PAGE}/now").text


def test_hostile_texts_are_shown_and_not_run(client: TestClient, login: Login, shows: Shows) -> None:
    login.as_("user")
    shows(hurting(HOSTILE))
    text = client.get(PAGE).text
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;") >= 4
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_a_viewer_sees_shares_of_keys_and_not_the_keys(
    client: TestClient, login: Login, shows: Shows
) -> None:
    shows(hurting("10.0.0.1 of a person"))
    assert "10.0.0.1 of a person" not in client.get(f"{PAGE}/tables").text
    assert "50.0 %" in client.get(f"{PAGE}/tables").text
    login.as_("user")
    assert "10.0.0.1 of a person" in client.get(f"{PAGE}/tables").text


def test_the_settings_may_show_keys_to_viewers(
    client: TestClient, shows: Shows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_API__VIEWERS_SEE_KEYS", "true")
    get_settings.cache_clear()
    shows(hurting("10.0.0.1 of a person"))
    try:
        assert "10.0.0.1 of a person" in client.get(PAGE).text
    finally:
        monkeypatch.undo()
        get_settings.cache_clear()


def test_a_platform_that_never_ran_teaches(client: TestClient, shows: Shows) -> None:
    shows(nothing())
    text = client.get(PAGE).text
    assert "not all is known yet" in text
    assert "The DAG speed_layer starts it" in text
    assert "No topic was counted yet" in text
    assert "No keys were counted yet" in text
    assert "the watch has kept no samples" in text


def test_a_daemon_that_died_is_red_at_the_next_look(client: TestClient, shows: Shows) -> None:
    shows(seen())
    assert "✓ works" in words(box(client.get(f"{PAGE}/now").text, "daemon-hbase"))
    shows(seen(daemons=healthy(hbase="Connection refused")))
    text = client.get(f"{PAGE}/now").text
    assert "✕ broken Connection refused" in words(box(text, "daemon-hbase"))
    assert "✕ broken" in words(box(text, "box-projector"))


def test_the_runbook_is_a_page_whose_links_lead_somewhere(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    text = client.get("/console/runbook").text
    anchors = set(re.findall(r'<h2 id="([^"]+)"', text))
    assert {"lag", "the-speed-layer-is-stuck"} <= anchors
    content = text.partition("<main")[2].partition("</main>")[0]
    links = re.findall(r'href="([^"]+)"', content)
    assert {link for link in links if not link.startswith("#")} == {"/console/platform"}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert "<img" not in content
    assert '<pre><code tabindex="0">' in content  # so the keyboard can scroll it


def test_html_in_a_paragraph_is_text() -> None:
    from sluice_airflow.console.handbook import as_html

    made = as_html("a <b>c</b> [out](https://x.example) [in](#lag) ![](p.png) `<i>`")
    assert "<b>" not in made
    assert "https://" not in made
    assert '<a href="#lag">in</a>' in made
    assert "<code>&lt;i&gt;</code>" in made


def test_a_small_line_has_a_piece_between_two_gaps_and_says_its_range() -> None:
    from sluice_airflow.console.platform_view import spark

    made = spark(Sparkline("Lag", "s", (None, 0.0, 4.0, None, 2.0, None)))
    assert made.pieces == ("1,28 2,0", "4,14 4,14")
    assert made.says == "Lag, the last 24 hours: 0 to 4 s"
    assert spark(Sparkline("Lag", "s", (None, None))).pieces == ()
    assert spark(Sparkline("Lag", "s", (0.0, 0.0))).pieces == ("0,28 1,28",)


def test_a_run_leads_to_airflow_whatever_its_name_holds() -> None:
    from sluice_airflow.console.runs import address

    assert address(FlowRun("a b", "x/../../y?#")) == "/dags/a%20b/runs/x%2F..%2F..%2Fy%3F%23"
    assert address(FlowRun("a", "")) == "/dags/a"


@pytest.mark.slow
def test_the_newest_run_and_the_newest_success_of_a_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    """On tables of Airflow's own models, in memory."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils import session as module
    from sqlalchemy.orm import Session

    from sluice_airflow.console import runs

    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    for model in (DagModel, DagRun):
        # The columns alone: constraints name other tables.
        columns = ", ".join(f'"{each.name}"' for each in model.__table__.columns)
        with engine.begin() as connection:
            connection.execute(sa.text(f"CREATE TABLE {model.__table__.name} ({columns})"))
    at = datetime(2026, 11, 25, tzinfo=UTC)
    with engine.begin() as connection:
        for dag in ("reconcile", "archive"):
            row = {"dag_id": dag, "is_paused": dag == "archive"}
            connection.execute(
                sa.text("INSERT INTO dag (dag_id, is_paused) VALUES (:dag_id, :is_paused)"), row
            )
        for number, state in ((1, "success"), (2, "failed")):
            row = {
                "id": number,
                "dag_id": "reconcile",
                "run_id": f"r{number}",
                "state": state,
                "at": str(at)[:-6],
            }
            text = "INSERT INTO dag_run (id, dag_id, run_id, state, start_date, end_date)"
            connection.execute(sa.text(f"{text} VALUES (:id, :dag_id, :run_id, :state, :at, :at)"), row)
    monkeypatch.setattr(module, "create_session", lambda: Session(engine))
    found = runs.newest_runs()
    assert set(found) == {"reconcile", "archive"}
    assert found["reconcile"].newest == FlowRun("reconcile", "r2", "failed")
    assert found["reconcile"].succeeded == at
    assert (found["archive"].newest, found["archive"].paused) == (FlowRun("archive", ""), True)


def test_a_daemon_that_dies_or_hangs_is_red_within_15_seconds() -> None:
    """The longest that each step between a daemon's death and the page takes."""
    from sluice.monitoring.flow import platform, seen, troubles
    from sluice_airflow.console.assets import STATIC

    pause = re.search(r"now: ([\d_]+)", (STATIC / "platform.js").read_text())
    assert pause is not None
    page = int(pause[1].replace("_", "")) / 1000
    assert page + platform.FRESH + seen.LIVE + seen.PATIENCE + troubles.SLOW <= 15
