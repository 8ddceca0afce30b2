"""What a scrape shows, as Prometheus' own parser reads it; what `job_figures` reads is among it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sluice.monitoring import figures, watch_progress
from sluice.monitoring.exposition import exposition
from sluice.monitoring.families import FAMILIES
from sluice.monitoring.figures import MOST, Figures
from sluice.monitoring.series import MetricSeries
from tests.monitoring.instance import looked, running, settings_of

Shown = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(found: Figures) -> Shown:
    """{(sample, its labels in order): value}"""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition(found).decode())
        for sample in family.samples
    }


def value(shown: Shown, name: str, **labels: str) -> float:
    return shown[name, tuple(sorted(labels.items()))]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return parsed(figures.read(running(tmp_path), time.time()))


def test_the_speed_layers_sums_are_counters(shown: Shown) -> None:
    for outcome, lines in (("counted", 16), ("doubled", 2), ("dead", 2)):
        assert value(shown, "sluice_lines_total", topic="logs", outcome=outcome) == lines
    assert value(shown, "sluice_bytes_total", topic="logs") == 1000
    assert value(shown, "sluice_batches_total", topic="logs") == 2
    assert value(shown, "sluice_pass_cpu_seconds_total", topic="logs") == 0.5
    assert value(shown, "sluice_dead_lines_total", topic="logs", reason="no event time") == 2


def test_freshness_is_a_histogram_that_cumulates(shown: Shown) -> None:
    for bound, lines in (("0.5", 14), ("1", 20), ("+Inf", 20)):
        assert value(shown, "sluice_freshness_seconds_bucket", topic="logs", le=bound) == lines
    assert value(shown, "sluice_freshness_seconds_count", topic="logs") == 20
    assert value(shown, "sluice_freshness_seconds_sum", topic="logs") == 18


def test_tasks_have_their_names_and_only_their_present_version(shown: Shown) -> None:
    assert value(shown, "sluice_task_lines_total", topic="logs", task="combined") == 16
    assert value(shown, "sluice_task_lines_total", topic="logs", task="routed") == 16
    assert value(shown, "sluice_task_skipped_lines_total", topic="logs", task="routed") == 4
    assert value(shown, "sluice_imbalance", topic="logs", task="routed") == 0.01
    assert not [key for key in shown if key[0] == "sluice_imbalance" and ("task", "combined") in key[1]]


def test_the_newest_batch_and_its_projection_are_shown(shown: Shown) -> None:
    assert value(shown, "sluice_batch_lap_seconds", topic="logs", lap="commit") == 0.02
    assert value(shown, "sluice_blocks_written", topic="logs") == 12
    assert value(shown, "sluice_projector_lag_commits", topic="logs") == 1
    assert value(shown, "sluice_results_written", topic="logs") == 90
    assert value(shown, "sluice_projection_seconds", topic="logs") == 0.035


def test_the_archiver_is_the_sum_of_its_partitions(shown: Shown) -> None:
    assert value(shown, "sluice_archiver_lines_total", topic="logs") == 40
    assert value(shown, "sluice_archiver_files_total", topic="logs") == 2
    assert value(shown, "sluice_archiver_buffered_lines", topic="logs") == 12


def test_the_look_shows_daemons_agents_lag_and_books(shown: Shown) -> None:
    assert value(shown, "sluice_daemon_healthy", daemon="kafka") == 1
    assert value(shown, "sluice_daemon_healthy", daemon="hbase") == 0
    assert value(shown, "sluice_agent_answers", agent="web2") == 0
    assert value(shown, "sluice_channel_fill_ratio", agent="web1") == 0.25
    assert value(shown, "sluice_agent_blocks_total", agent="web1", way="taken") == 4
    assert value(shown, "sluice_lag_records", topic="logs", hop="archive") == 30
    assert value(shown, "sluice_lag_seconds", topic="logs", hop="speed") == 1.5
    assert ("sluice_lag_seconds", (("hop", "archive"), ("topic", "logs"))) not in shown  # not known
    assert value(shown, "sluice_archive_lost_records", topic="logs") == 4
    assert value(shown, "sluice_tasks", topic="logs", state="paused") == 1
    assert value(shown, "sluice_reconciled_days", topic="logs", outcome="differs") == 1
    assert value(shown, "sluice_unpublished_days", topic="logs") == 1
    assert value(shown, "sluice_alerts_open", source="collection") == 2


def test_every_metric_but_what_is_left_out_has_a_value_on_a_busy_platform(tmp_path: Path) -> None:
    found = figures.read(running(tmp_path), time.time())
    assert {name for name in FAMILIES if not found.values.get(name)} == {"sluice_series_left_out"}


def test_ages_grow_with_the_clock(tmp_path: Path) -> None:
    found = parsed(figures.read(running(tmp_path), time.time() + 90))
    for job in ("speed_layer", "archiver", "watch"):
        assert 89.9 < value(found, "sluice_heartbeat_age_seconds", job=job) < 120


def test_a_platform_that_never_ran_shows_nothing_and_does_not_fail(tmp_path: Path) -> None:
    assert parsed(figures.read(settings_of(tmp_path), time.time())) == {}


def test_a_part_that_is_not_known_is_missing_and_said(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    watch_progress.write(settings, looked(lag=None, books=None, disks=None))
    found = parsed(figures.read(settings, time.time()))
    assert {part: value(found, "sluice_part_known", part=part) for part in watch_progress.PARTS} == {
        "daemons": 1,
        "agents": 1,
        "lag": 0,
        "books": 0,
        "disks": 0,
    }
    assert not [name for name, _ in found if name.startswith(("sluice_lag", "sluice_tasks"))]


#: What Python's `splitlines`, with which the parser reads, takes for an end of a line; Prometheus does not.
ENDS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters=ENDS)))
def test_any_label_is_read_back_as_it_was(text: str) -> None:
    series = MetricSeries()
    series.add("sluice_bytes_total", 1, text)
    assert parsed(Figures.of(series)) == {("sluice_bytes_total", (("topic", text),)): 1}


def test_a_metric_shows_so_many_series_and_says_how_many_it_left_out() -> None:
    series = MetricSeries()
    for number in range(MOST + 7):
        series.add("sluice_agent_answers", 1, f"web{number:05}")
    found = parsed(Figures.of(series))
    assert sum(name == "sluice_agent_answers" for name, _ in found) == MOST
    assert value(found, "sluice_series_left_out", metric="sluice_agent_answers") == 7


def test_a_series_must_have_its_metrics_labels() -> None:
    with pytest.raises(ValueError, match="has the labels"):
        MetricSeries().add("sluice_bytes_total", 1)
