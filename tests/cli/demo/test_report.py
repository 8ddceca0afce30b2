import json
from dataclasses import replace
from datetime import date
from pathlib import Path

from sluice.cli.demo.command import closing, password_file, urls
from sluice.cli.demo.report import HOT, DemoReport, MetricTotal, MoveReport, TaskReport
from sluice.grouping.auto import Auto
from sluice.quality.hops import Hops
from sluice.results.agreement import how
from sluice.runtime.settings import Settings
from sluice.speed.routed.report import GroupingReport
from tests.cli.routed import ROUTED, document

HOPS = Hops(
    topic="logs", lines_read=10, kafka=12, doubled=2, online=9, archived=12, hive_raw=12, hive_unique=9,
    dead_lettered=1, lost=0,
)  # fmt: skip
TASK = TaskReport(
    name="hits_by_status", version=1, series=3, results=7, online_total=9, offline_total=9, differing=0,
    metrics=[MetricTotal("count", 7, 9, 9, 0, "equal")], examples=[],
)  # fmt: skip


def report(hops: Hops = HOPS, task: TaskReport = TASK, failures: tuple[str, ...] = ()) -> DemoReport:
    return DemoReport(
        hops=hops, tasks=[task], failures=list(failures), seconds={"start": 1.5, "replay": 2.0},
        peak_memory_bytes=5 << 30, urls={"airflow": "http://127.0.0.1:22080"}, login={"user": "admin"},
    )  # fmt: skip


def test_it_agrees_only_if_everything_does() -> None:
    assert report().agrees
    assert not report(hops=replace(HOPS, lost=1)).agrees
    assert not report(hops=replace(HOPS, disagreements=("kafka 12 != archived 11",))).agrees
    assert not report(hops=replace(HOPS, in_flight=("1 day",))).agrees
    assert not report(task=replace(TASK, differing=1)).agrees
    assert not report(failures=("reconcile r1: failed",)).agrees


def test_the_document_has_every_hop_every_task_and_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report().write(path)
    found = json.loads(path.read_text())
    assert {k: found[k] for k in Hops.COUNTS} == HOPS.counts()
    assert found["agrees"] is True
    assert "problems" not in found
    assert found["seconds"] == {"start": 1.5, "replay": 2.0, "total": 3.5}
    assert found["peak_memory_bytes"] == 5 << 30
    assert found["tasks"][0]["name"] == "hits_by_status"
    assert found["tasks"][0]["metrics"] == [
        {"metric": "count", "results": 7, "online": 9, "offline": 9, "differing": 0, "rule": "equal"}
    ]


def test_the_document_names_the_problems() -> None:
    assert report(failures=("reconcile r1: failed",)).document()["problems"] == ["reconcile r1: failed"]


def test_the_table_names_what_differs_and_what_failed() -> None:
    text = report(
        task=replace(TASK, differing=1, examples=["hits_by_status count of 200 at 0: online 2, offline 3"]),
        failures=("reconcile r1: failed",),
    ).text()
    assert "DIFFERS: hits_by_status count of 200 at 0: online 2, offline 3" in text
    assert "FAILED: reconcile r1: failed" in text
    assert "hits_by_status" in text


def test_a_task_that_was_set_aside_does_not_agree() -> None:
    found = report(task=replace(TASK, error="ValueError: no"))
    assert not found.agrees
    assert found.document()["problems"] == ["task hits_by_status was set aside: ValueError: no"]
    assert "FAILED: task hits_by_status was set aside: ValueError: no" in found.text()


def test_the_table_says_how_many_tasks_agree_and_by_which_rule() -> None:
    assert "1 of 1 tasks agree" in report().text()
    assert "0 of 1 tasks agree" in report(task=replace(TASK, differing=1)).text()
    assert [how(name) for name in ("count", "sum", "stddev", "unique", "p95", "top10")] == [
        "equal", "equal", "fractions to 1e-09", "equal", "within stated errors", "within stated errors",
    ]  # fmt: skip


def test_it_shows_what_tasks_are_grouped_by_and_the_hot_keys_of_those_with_workers(tmp_path: Path) -> None:
    hot = [{"key": [f"/{n}"], "share": 0.1, "error": 0, "workers": [0]} for n in range(9)]
    unmeasured = document("small", decision=Auto().decision.document())
    documents = [document("combined"), unmeasured, {**ROUTED, "hot": hot}]
    found = replace(report(), grouping=[GroupingReport.model_validate(each) for each in documents])
    lines = [line.split() for line in found.text().splitlines()]
    header = next(n for n, cells in enumerate(lines) if cells[:3] == ["task", "asked", "grouping"])
    assert lines[header][-3:] == ["combine_ms", "key_ms", "planned_ms"]
    combined, small, routed = lines[header + 2 : header + 5]
    assert combined[:7] == ["combined", "auto", "combine", "200000", "5000", "2.0", "30.0%"]
    assert float(combined[7]) < float(combined[9]) < float(combined[8])  # the figures that auto went by
    assert small == ["small", "auto", "combine", *"-------"]
    assert (routed[0], routed[-8:]) == ("routed", ["planned", *"-------"])
    assert ["routed", "planned", "/0", "10.00%", "0.00%", "0"] in lines
    assert sum(line[:2] == ["routed", "planned"] for line in lines) == HOT  # none of combined ones
    assert any(line[:4] == ["routed:", "imbalance", "1.00%", "in"] for line in lines)
    found.write(tmp_path / "report.json")
    written = json.loads((tmp_path / "report.json").read_text())["grouping"]
    assert [each["task"] for each in written] == ["combined", "small", "routed"]
    assert (written[2]["imbalance"]["hour"], len(written[2]["hot"])) == (0.02, 9)


def test_without_groupings_it_does_not_mention_them() -> None:
    assert report().document()["grouping"] == []
    assert "planned_ms" not in report().text()


def test_a_demo_over_hosts_says_what_ran_where_and_how_the_move_went() -> None:
    move = MoveReport(
        front_ends={"web1": "host1"},
        collectors={"collector1": "host2", "collector2": "host3"},
        moved="collector1",
        to="host1",
        seconds=9.5,
        lines=1_600,
        pauses={"web1": 0.8},
    )
    found = replace(report(), move=move)
    lines = [line.split() for line in found.text().splitlines()]
    assert ["web1", "host1"] in lines
    assert ["collector1", "host2", "->", "host1"] in lines
    assert "moved in 9.5 s, in which 1,600 lines were written" in found.text()
    assert "0.8 s without a block of web1" in found.text()
    assert found.document()["move"]["to"] == "host1"
    assert "move" not in report().document()


def test_the_verdict_and_the_report_cover_the_days_that_are_over() -> None:
    day, future = date(2015, 5, 17), date(2038, 1, 19)
    whole = replace(report(), computed=[day])
    assert (whole.verdict, whole.left_out) == ("AGREES: online and offline results are the same.", [])
    found = replace(report(), computed=[day], to_come={date(2026, 11, 27): 1_004, future: 1})
    assert found.verdict == (
        "AGREES on the days that are over (1): online and offline results are the same. "
        "The days that are not over (2) are left out: see above."
    )
    assert "1 of 1 tasks agree in every result that was compared\n" in found.text()
    assert (
        "LEFT OUT, because they are not over (UTC): 2026-11-27: 1,004 lines, 2038-01-19: 1 line. Results of "
        "periods that touch these days are not compared; nightly_batch computes a day once it is over\n"
    ) in found.text()
    document = found.document()
    assert document["days"] == ["2015-05-17"]
    assert document["days_to_come"] == {"2026-11-27": 1_004, "2038-01-19": 1}


def test_without_a_day_that_is_over_nothing_is_said_to_agree_or_to_differ() -> None:
    found = replace(report(failures=("no day of the log is over",)), to_come={date(2038, 1, 19): 1})
    assert (found.agrees, found.verdict) == (False, "NOT COMPARED: no day was computed, see above.")
    assert replace(found, computed=[date(2015, 5, 17)]).verdict == "DOES NOT AGREE: see above."


def test_the_closing_lines_say_what_to_do_next_and_no_log_gets_the_password(tmp_path: Path) -> None:
    settings = Settings(instance="demo", root=tmp_path, home=tmp_path / "var" / "demo", port_base=29_000)
    secret = password_file(settings)
    secret.parent.mkdir(parents=True)
    secret.write_text("hidden")
    made = replace(report(), urls=urls(settings))
    lines = closing(settings, made, settings.home / "report.json").splitlines()
    assert lines[0].endswith(f"password in {secret})")
    assert lines[2].split() == ["report", "var/demo/report.json"]
    assert "`sluice results hits_by_status`" in lines[-2]
    assert lines[-1] == made.verdict
