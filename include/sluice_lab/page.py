"""docs/grouping.md and its plots, made only from what experiments kept in docs/grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import jinja2
import numpy as np

from sluice import grouping
from sluice.runtime.settings import ROOT
from sluice_lab import comparison, papers, plots
from sluice_lab.experiments import DRIFT_AT, EXPERIMENTS, FOLDER, KG2_FINER, kept
from sluice_lab.plots import Plot
from sluice_lab.tables import Cell, Measured, TextTable, pivot, selected, shown
from sluice_lab.trials import Row

PAGE = ROOT / "docs" / "grouping.md"

#: The page's plots by file name: the experiment, which of its rows, and what is drawn from them.
PLOTS: dict[str, tuple[str, Row, Plot]] = {
    "imbalance": (
        "balance",
        {"stream": "edu"},
        replace(plots.BY_WORKERS, title="EDU: imbalance by number of workers"),
    ),
    "skew": ("skew", {}, Plot("Zipf's law: memory by skew", "z", "replicas", "exponent z", "replicas")),
    "drift": (
        "drift",
        {"stream": "move:edu"},
        replace(plots.BY_BATCH, title="EDU: the hot key moves in batch 4"),
    ),
    "memory": (
        "memory",
        {},
        replace(plots.MEMORY, title="EDU: state as its visits come, 32 workers"),
    ),
    "latency": (
        "latency",
        {},
        replace(
            plots.LATENCY,
            title="Latency at 12 workers of unequal distance",
            y_label="99th percentile, microseconds",
            linear=1_000.0,
        ),
    ),
}
_MARKS, _PROSE_MARKS = 6, 3  # how many totals a table and a sentence can hold

#: The templates of this package.
templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,  # noqa: S701 - Markdown, not HTML
)
templates.filters["shown"] = shown
templates.filters["percent"] = lambda part: f"{part:.0%}".replace("%", " %")


def write(page: Path = PAGE, folder: Path = FOLDER) -> Path:
    """Write the page and its plots (into `images` beside it); returns the page's path."""
    measured = {name: kept(name, folder) for name in EXPERIMENTS}
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(measured))
    for name, (experiment, chosen, plot) in PLOTS.items():
        image = page.parent / "images" / f"grouping-{name}.svg"
        rows = selected(measured[experiment], **chosen)
        plots.draw(plot, [row for row in rows if float(row.get("busiest", 0)) < 1], image)
    return page


def render(measured: Measured) -> str:
    """The page. measured: the rows of every experiment, by its name."""
    ratios = comparison.held_ratio(measured)
    widest = selected(measured["balance"], stream="edu", workers=papers.MOST_WORKERS)
    return templates.get_template("grouping.md.j2").render(
        papers=papers,
        drift_at=DRIFT_AT,
        plots={name: plot.title for name, (_, _, plot) in PLOTS.items()},
        tuples={name: int(rows[0]["tuples"]) for name, rows in measured.items() if name != "latency"},
        stand_in=measured["latency"][0]["stream"],
        zipf_keys=int(str(measured["skew"][0]["stream"]).rpartition(":")[2]),
        strategies=_strategies().markdown(),
        overview={stream: _overview(measured, stream).markdown() for stream in papers.IMBALANCE},
        table_2={stream: comparison.table_2(measured, stream).markdown() for stream in papers.IMBALANCE},
        key_50={stream: comparison.shares(measured, stream, "key")[-1] for stream in papers.IMBALANCE},
        kg2=selected(widest, strategy="kg2")[0],
        kg2_finer=selected(widest, strategy=KG2_FINER)[0],
        memory=_memory(measured, _few([*ratios], _MARKS)).markdown(),
        held_ratio={total: ratios[total] for total in _few([*ratios], _PROSE_MARKS)},
        throughput=_throughput(measured).markdown(),
        latency=pivot(measured["latency"], "strategy", "utilisation", _p99).markdown(),
        capacity={name: comparison.capacity(measured, name) for name in ("tag", "dag")},
        latency_ratio=comparison.latency_ratio(measured),
        skew={
            figure: pivot(measured["skew"], "strategy", "z", figure).markdown()
            for figure in ("relative", "replicas")
        },
        drift={kind: _drift(measured, kind).markdown() for kind in ("move", "appear")},
        speeds={workers: _speeds(measured, workers).markdown() for workers in (12, 64)},
    )


def _strategies() -> TextTable:
    rows: list[list[Cell]] = []
    for name, strategy in grouping.STRATEGIES.items():
        module = import_module(strategy.__module__)
        path = Path(str(module.__file__)).relative_to(ROOT)
        title, _, rule = (module.__doc__ or "").splitlines()[0].partition(": ")
        rows.append([name, rule or title, f"[{path.name}](../{path})"])
    return TextTable(["strategy", "rule", "source, parameters, cost"], rows)


def _overview(measured: Measured, stream: str) -> TextTable:
    rows: list[list[Cell]] = []
    for row in selected(measured["balance"], stream=stream, workers=papers.WORKERS):
        partials = float(row["partials"]) / float(row["tuples"])
        times = [float(batch["ns"]) for batch in selected(measured["cost"], strategy=row["strategy"])]
        quickest = min(times, default=None)
        rows.append([row["strategy"], row["relative"], row["replicas"], row["sent"], partials, quickest])
    return TextTable([stream.upper(), "imbalance", "replicas", "sent", "partials", "ns"], rows)


def _memory(measured: Measured, totals: Sequence[int]) -> TextTable:
    rows = [row for row in measured["memory"] if row["total"] in totals]
    return pivot(rows, "strategy", "total", "held", corner="tuples")


def _throughput(measured: Measured) -> TextTable:
    names = ("key", "pkg", "kg2", "planned", "shuffle")
    rows: list[list[Cell]] = [
        [stream.upper(), *(comparison.throughput(measured, stream, name) for name in names)]
        for stream in papers.IMBALANCE
    ]
    return TextTable(["", *names], rows)


def _drift(measured: Measured, kind: str) -> TextTable:
    return pivot(selected(measured["drift"], stream=f"{kind}:edu"), "strategy", "batch", "relative")


def _speeds(measured: Measured, workers: int) -> TextTable:
    rows = selected(measured["speeds"], workers=workers)
    return pivot(rows, "strategy", "times", "makespan", corner=f"W = {workers}")


def _p99(row: Row) -> Cell:
    return float(row["p99"]) if float(row["busiest"]) < 1 else "full"


def _few(totals: Sequence[int], count: int) -> list[int]:
    """About `count` of the totals, spaced like a geometric series.

    The least and the greatest are included.
    """
    wanted = np.geomspace(min(totals), max(totals), count)
    return sorted({min(totals, key=lambda total: abs(np.log(total / near))) for near in wanted})
