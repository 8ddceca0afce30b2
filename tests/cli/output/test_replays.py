"""What a replay prints: each day, each reason why not, and what somebody has to do now."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from sluice.cli.output import replays as module
from sluice.cli.output.format import Format
from sluice.cli.output.replays import print_report, print_samples, progress
from sluice.letters.line_replay import ReplayReport
from sluice.letters.replay import ReplayRequest
from sluice.tasks.topic_spec import TopicSpec

REQUEST = ReplayRequest("logs", "shop", "host:ann")
DRY = ReplayRequest("logs", "shop", "host:ann", dry_run=True)


@pytest.fixture
def report() -> ReplayReport:
    found = ReplayReport(9, 4, 2)
    found.days.update([datetime.now(UTC).date(), date(2015, 5, 17), date(2015, 5, 18), date(2016, 1, 1)])
    found.still_dead["no event time"] = 2
    found.refused["forged: nobody knows whose line it is"] = 1
    return found


def test_a_report_says_what_was_sent_and_what_was_not(
    report: ReplayReport, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(report, DRY, "lines", Format.TABLE)
    shown = capsys.readouterr().out
    assert "4 of 9 lines of logs would be sent to shop" in shown
    assert "copies: shop or this replay has them already" in shown
    assert "shop cannot read them: no event time" in shown
    print_report(report, REQUEST, "lines", Format.TABLE)
    shown = capsys.readouterr().out
    assert "4 of 9 lines of logs were sent to shop" in shown
    assert "the next night computes recent days" in shown
    assert "archived: sluice nightly --from 2015-05-17 --to 2015-05-18\n" in shown
    assert "sluice nightly --from 2016-01-01 --to 2016-01-01\n" in shown
    assert shown.count("sluice nightly") == 2
    print_report(report, REQUEST, "lines", Format.JSON)
    assert [row["number"] for row in json.loads(capsys.readouterr().out)] == [1, 1, 1, 1, 2, 2, 1]


def test_samples_say_when_they_were_by_both_formats(capsys: pytest.CaptureFixture[str]) -> None:
    print_samples(ReplayReport(), [])
    assert capsys.readouterr().out == ""
    formats = [
        TopicSpec.model_validate(
            {"name": name, "format": "json", "time": {"extract": {"field": "at"}, "format": form}}
        )
        for name, form in (("shop", "epoch_ms"), ("shop_2", "epoch_s"))
    ]
    print_samples(ReplayReport(read=[b'{"at": 1717236000}'], unread=[b"\x1b[2J"]), formats)
    _, heading, rule, good, bad = capsys.readouterr().out.splitlines()
    assert heading.split("  ")[0] == "as shop reads it"
    assert set(rule) <= {"-", " "}
    assert good.split()[:2] == ["1970-01-20T21:00:36Z", "2024-06-01T10:00:00Z"]
    assert bad.split() == ["-", "-", r"\x1b[2J"]


def test_progress_is_for_people_and_not_too_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    told = progress(Format.TABLE)
    for step in (0, 0.5, 0.7):
        now += step
        told(ReplayReport(2_000, 1_000))
    found = capsys.readouterr()
    assert found.err == "2,000 looked at, 1,000 to send or sent\n" * 2
    assert found.out == ""
    progress(Format.JSON)(ReplayReport())
    assert capsys.readouterr().err == ""
