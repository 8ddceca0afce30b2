"""The dashboard, the alert rules and docs/monitoring.md name the metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sluice.monitoring.families import FAMILIES
from sluice.runtime.settings import ROOT
from tests.docs.test_docs import table_under, text_of

FOLDER = ROOT / "include" / "monitoring"
METRIC = re.compile(r"\bsluice_[a-z_]+\b")
SELECTED = re.compile(r"\b(sluice_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!=|=)")
GROUPED = re.compile(r"by \(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*\$labels\.(\w+)\s*\}\}|\{\{\s*(\w+)\s*\}\}")
#: Labels that Prometheus itself adds.
OWN = {"le", "instance", "job"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    board = json.loads((FOLDER / "dashboard.json").read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression of the two files, and the text that shows its labels."""
    for rule in rules():
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def family(sample: str) -> str:
    """The metric that a sample is of: a histogram has three kinds of samples."""
    return re.sub(r"_(bucket|sum|count)$", "", sample) if sample not in FAMILIES else sample


@pytest.mark.parametrize(("expression", "shown"), list(expressions()))
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str, shown: str) -> None:
    named = {family(name) for name in METRIC.findall(expression)}
    assert named <= FAMILIES.keys()
    assert named or "up{" in expression
    for name, selected in SELECTED.findall(expression):
        assert set(MATCHER.findall(selected)) <= {*FAMILIES[family(name)].labels, *OWN}
    labels = {label for name in named for label in FAMILIES[name].labels}
    for grouped in GROUPED.findall(expression):
        assert {label.strip() for label in grouped.split(",")} <= {*labels, *OWN}
    assert {a or b for a, b in SHOWN.findall(shown)} <= {*labels, *OWN}
    assert expression.count("(") == expression.count(")")


def test_counters_are_read_as_rates_and_gauges_are_not() -> None:
    for expression, _ in expressions():
        for name, family_ in FAMILIES.items():
            if name in METRIC.findall(expression) and family_.kind == "counter":
                assert re.search(rf"rate\({name}\b", expression), expression
        for rated in re.findall(r"rate\((sluice_[a-z_]+)", expression):
            assert FAMILIES[family(rated)].kind in ("counter", "histogram"), expression


def test_the_dashboard_shows_every_metric() -> None:
    board = (FOLDER / "dashboard.json").read_text()
    assert {family(name) for name in METRIC.findall(board)} == FAMILIES.keys()


def test_every_rule_says_what_is_wrong_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"]
    runbook = text_of("docs/runbook.md").lower()
    for rule in rules():
        if named := re.search(r"[Rr]unbook: ([^.]+)\.", rule["annotations"]["action"]):
            assert f"\n## {named[1].lower()}\n" in runbook, named[1]


def test_the_panels_do_not_lie_on_each_other() -> None:
    board = json.loads((FOLDER / "dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_page_lists_every_metric_with_its_labels_and_meaning() -> None:
    listed = {
        name: (kind, tuple(filter(None, labels.replace("`", "").split(", "))), meaning)
        for name, kind, labels, meaning in table_under(text_of("docs/monitoring.md"), "metric")
    }
    assert listed == {family.name: (family.kind, family.labels, family.help) for family in FAMILIES.values()}


def test_the_scrape_configuration_goes_where_the_metrics_are() -> None:
    made = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (scrape,) = made["scrape_configs"]
    settings = yaml.safe_load((ROOT / "include" / "settings.yaml").read_text())
    port = settings["port_bases"]["main"] + settings["port_offsets"]["airflow"]
    assert scrape["static_configs"][0]["targets"] == [f"127.0.0.1:{port}"]
    assert (scrape["metrics_path"], set(scrape["basic_auth"])) == (
        "/sluice/metrics",
        {"username", "password_file"},
    )
    assert [(FOLDER / name).exists() for name in made["rule_files"]] == [True]
