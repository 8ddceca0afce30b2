"""What hurts: where it is shown, with which paragraph of the runbook and which run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.monitoring.flow import troubles as module
from sluice.monitoring.flow.asks import Said
from sluice.monitoring.flow.picture import FlowRun
from sluice.monitoring.flow.runbook import sections
from sluice.monitoring.flow.seen import FlowAnswers
from sluice.monitoring.flow.troubles import OF_DAG, OF_SOURCE, health, troubles
from sluice.runtime.settings import ROOT
from sluice.storage.tables.alerts import Alert
from tests.monitoring.flow.made import AT, agents, figures, healthy, nothing, report, seen


def told(found: FlowAnswers) -> list[tuple[str, str, str, bool]]:
    return [(each.box, each.message, each.section, each.bad) for each in troubles(found)]


def alert(source: str, name: str, message: str = "it hurts") -> FlowAnswers:
    return seen(alerts=Said([Alert(source, name, message, AT)]))


def test_where_all_is_well_nothing_hurts() -> None:
    assert told(seen()) == []
    assert told(nothing()) == []


@pytest.mark.parametrize(
    ("source", "name", "box", "section"),
    [
        ("collection", "web1: channel", "edges", module.LAG),
        ("collection", "collector1: dead", "collectors", module.AGENT),
        ("collection", "gone: dead", "collectors", module.AGENT),
        ("archive", "logs/0: not archived", "archive", module.LAG),
        ("job speed_layer", "restarted", "speed", module.SPEED),
        ("nightly", "logs 2026-11-24: task 1v1", "nightly", module.TASK),
        ("reconcile", "logs 2026-11-24", "reconcile", module.DAY),
        ("airflow", "nightly_batch.batch", "nightly", module.NIGHT),
        ("state", "logs: task 7v1", "speed", module.LOST_STATE),
        ("hosts", "web3: connection", "collectors", module.HOST),
        ("somebody", "else", "", ""),
    ],
)
def test_an_alert_hurts_where_its_source_is(source: str, name: str, box: str, section: str) -> None:
    assert told(alert(source, name)) == [(box, "it hurts", section, True)]


def test_an_alert_of_a_run_leads_to_that_run_and_others_to_the_newest() -> None:
    (found,) = troubles(alert("airflow", "reconcile.reconcile", "x failed in run manual__1+2: it differs"))
    assert found.run == FlowRun("reconcile", "manual__1+2", "failed")
    (found,) = troubles(alert("reconcile", "logs 2026-11-24"))
    assert found.run == FlowRun("reconcile", "scheduled__reconcile", "running")
    assert found.since == AT


def test_an_alert_of_lost_state_leads_to_what_is_counted_again() -> None:
    (found,) = troubles(alert("state", "web.shop: task 7v1, expired"))
    assert found.recounted == "web.shop"
    (found,) = troubles(alert("reconcile", "logs: x"))
    assert found.recounted == ""


def test_a_sick_daemon_hurts_in_the_box_that_stands_on_it() -> None:
    found = told(seen(daemons=healthy(kafka="no broker", airflow_scheduler="unhealthy")))
    assert found == [
        ("topics", "kafka: no broker", module.DAEMON, True),
        ("", "airflow-scheduler: unhealthy", module.DAEMON, True),
    ]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (Said(""), "works"),
        (Said("down"), "broken"),
        (Said(None, waiting=1.0), "unknown"),
        (Said(None, waiting=13.0), "broken"),
        (Said("", age=8.0, waiting=5.0), "works"),
        (Said("", age=9.0, waiting=6.5), "broken"),
        (Said("", age=600.0, waiting=1.0), "unknown"),
        (Said("", error="it raised"), "broken"),
    ],
)
def test_a_daemon_that_hangs_is_broken_and_one_that_was_not_asked_is_not_known(
    said: Said[str], state: str
) -> None:
    assert health(said)[0] == state


def test_an_outage_between_two_checks_of_health_is_seen_by_its_process() -> None:
    programs = seen().programs.value or {}
    again = {**programs, "sql": replace(programs["sql"], state="STARTING")}
    assert told(seen(programs=Said(again))) == [
        ("reconcile", "sql: its process has just started", module.DAEMON, True)
    ]
    assert told(seen(programs=Said(again, error="nothing runs"))) == []


def test_a_silent_job_hurts_and_so_does_a_silent_watch() -> None:
    ages = [[{"job": "speed_layer"}, 11.0], [{"job": "archiver"}, 9.0], [{"job": "watch"}, 100.0]]
    found = told(seen(figures=figures(sluice_heartbeat_age_seconds=ages)))
    assert [(box, section) for box, _, section, _ in found] == [("speed", module.SPEED), ("", module.WATCH)]


def test_an_agent_that_does_not_answer_hurts_once() -> None:
    silent = Said(agents(answers=False))
    assert told(seen(agents=silent)) == [("edges", "web1 does not answer", module.AGENT, True)]
    dead = Said([Alert("collection", "web1: dead", "web1 is dead", AT)])
    assert told(seen(agents=silent, alerts=dead)) == [("edges", "web1 is dead", module.AGENT, True)]
    assert told(seen(agents=Said(agents(answers=None)))) == []


def test_what_is_late_hurts_less() -> None:
    late = seen(
        lag=Said(report(70.0, shop="no such topic")),
        agents=Said(agents(fill=0.9)),
        figures=figures(
            sluice_tasks=[[{"topic": "logs", "state": "failed"}, 1]],
            sluice_projector_lag_commits=[[{"topic": "logs"}, 61]],
        ),
    )
    assert {(box, bad) for box, _, _, bad in told(late)} == {
        ("edges", False),
        ("speed", False),
        ("topics", False),
        ("projector", False),
    }
    (speed,) = (message for box, message, _, _ in told(late) if "oldest" in message)
    assert speed == "logs: 8 records wait, the oldest for 70 s"


def test_every_paragraph_that_is_named_is_in_the_runbook() -> None:
    known = {each.anchor for each in sections((ROOT / "docs" / "runbook.md").read_text())}
    named = {section for _, section in (*OF_DAG.values(), *OF_SOURCE.values())}
    named |= {
        module.DAEMON,
        module.SPEED,
        module.LAG,
        module.RESULTS,
        module.TASK,
        module.WATCH,
        module.AGENT,
    }
    assert named <= known


def test_every_dag_has_its_box() -> None:
    assert set(OF_DAG) == {path.stem for path in (ROOT / "dags").glob("*.py")}
