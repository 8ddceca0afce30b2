"""docs/grouping.md shows what was kept of the experiments, and its words fit the figures."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from sluice import grouping
from sluice_lab import comparison, papers, plots
from sluice_lab.experiments import DRIFT_AT, EXPERIMENTS, KG2_FINER, kept, measure
from sluice_lab.page import PAGE, PLOTS, render, write
from sluice_lab.tables import TextTable, pivot, selected, shown
from sluice_lab.trials import Row

pytestmark = pytest.mark.slow

MEASURED = {name: kept(name) for name in EXPERIMENTS}


def table(text: str, corner: str) -> dict[str, list[str]]:
    """The first table whose first column has this header: the cells of each row, as text."""
    begins = text.index(f"\n| {corner} |") + 1
    lines = text[begins : text.index("\n\n", begins)].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in [cells[0], *cells[2:]]}


def test_the_page_is_made_of_what_was_kept() -> None:
    assert PAGE.read_text() == render(MEASURED), "run: sluice lab page --experiments none"


def test_writing_it_again_changes_nothing(tmp_path: Path) -> None:
    page = write(tmp_path / "docs" / "grouping.md")
    assert page.read_text() == PAGE.read_text()
    for name in PLOTS:
        image = Path("images") / f"grouping-{name}.svg"
        assert (page.parent / image).read_bytes() == (PAGE.parent / image).read_bytes()


def test_the_tables_hold_the_figures() -> None:
    text = PAGE.read_text()
    for stream in ("edu", "isp"):
        printed = table(text, stream.upper())
        for row in selected(MEASURED["balance"], stream=stream, workers=64):
            figures = printed[str(row["strategy"])]
            assert figures[:3] == [shown(row[name]) for name in ("relative", "replicas", "sent")]
    by_workers = table(text, "W = 12")
    for row in selected(MEASURED["speeds"], workers=12):
        column = by_workers["W = 12"].index(str(row["times"]))
        assert float(by_workers[str(row["strategy"])][column]) == pytest.approx(
            float(row["makespan"]), rel=5e-3
        )


def test_every_strategy_is_in_the_table_and_linked() -> None:
    assert list(table(PAGE.read_text(), "strategy"))[1:] == list(grouping.STRATEGIES)


def test_the_paper_is_quoted_as_it_is_printed() -> None:
    """Paper 000, table 2."""
    assert papers.IMBALANCE["edu"]["key"] == (1.52, 1.74, 2.06, 2.17)
    assert papers.IMBALANCE["isp"]["kg2"] == (0.52, 0.53, 1.34, 2.07)
    assert (papers.MEMORY, papers.THROUGHPUT, papers.TAG_THROUGHPUT, papers.TAG_LATENCY) == (
        0.45,
        1.4,
        1.1,
        0.67,
    )


# What the page says in words.


@pytest.mark.parametrize("stream", ["edu", "isp"])
def test_the_order_of_table_2_is_the_papers(stream: str) -> None:
    shuffle, kg2, key = (comparison.shares(MEASURED, stream, name) for name in ("shuffle", "kg2", "key"))
    for ours in zip(shuffle, kg2, key, strict=True):
        assert ours[0] < ours[1] < ours[2] / 100
    assert max(shuffle) < 0.01


def test_the_paper_has_that_order_too_with_one_exception() -> None:
    otherwise = []
    for stream, printed in papers.IMBALANCE.items():
        shuffle, kg2, key = (printed[name] for name in papers.STRATEGIES)
        assert all(theirs < keys for theirs, keys in zip(kg2, key, strict=True))
        otherwise += [
            (stream, width)
            for width, ours, turns in zip(papers.WIDTHS, kg2, shuffle, strict=True)
            if ours < turns
        ]
    assert otherwise == [("isp", 10)]


def test_isp_is_less_even_than_edu_and_its_top_key_bounds_it() -> None:
    edu, isp = (comparison.shares(MEASURED, stream, "key")[-1] for stream in ("edu", "isp"))
    assert edu * 1.01 >= 7.42 * (1 - 1 / 50)
    assert isp * 1.01 >= 9.01 * (1 - 1 / 50)
    assert (
        edu < isp < 1.5 * edu < papers.IMBALANCE["isp"]["key"][-1] / papers.IMBALANCE["edu"]["key"][-1] * edu
    )


def test_a_support_that_follows_the_width_fixes_kg2() -> None:
    wide = selected(MEASURED["balance"], stream="edu", workers=1_000)
    coarse, finer = (selected(wide, strategy=name)[0] for name in ("kg2", KG2_FINER))
    assert float(finer["relative"]) < 0.05 * float(coarse["relative"])
    assert float(finer["replicas"]) > float(coarse["replicas"])


def test_kg2_holds_less_and_less_of_shuffles_memory() -> None:
    ratios = list(comparison.held_ratio(MEASURED).values())
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 1.05 * papers.MEMORY > 2 * ratios[-1]
    assert pytest.approx(0.06, abs=0.005) == 2 / 32


@pytest.mark.parametrize("stream", ["edu", "isp"])
def test_kg2s_throughput_is_near_shuffles_and_far_above_keys(stream: str) -> None:
    kg2, shuffle = (comparison.throughput(MEASURED, stream, name) for name in ("kg2", "shuffle"))
    assert kg2 > 0.95 * shuffle
    assert kg2 > 2 * papers.THROUGHPUT


def test_tag_fills_the_cluster_and_dag_does_not() -> None:
    tag, dag = (comparison.capacity(MEASURED, name) for name in ("tag", "dag"))
    assert tag > papers.TAG_THROUGHPUT * dag


def test_tags_latency_gains_on_nags_most_where_queues_are_short() -> None:
    ratios = list(comparison.latency_ratio(MEASURED).values())
    assert ratios == sorted(ratios)
    assert ratios[0] < papers.TAG_LATENCY < ratios[-1]


@pytest.mark.parametrize("strategy", ["kg2", "d-choices"])
def test_a_strategy_that_never_forgets_takes_a_new_hot_key_for_a_cold_one(strategy: str) -> None:
    by_batch = [
        float(row["relative"]) for row in selected(MEASURED["drift"], stream="move:edu", strategy=strategy)
    ]
    before, after = by_batch[int(DRIFT_AT) - 1], by_batch[int(DRIFT_AT) + 1 :]
    assert min(after) > 5 * before


# The experiments and the plots.


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """Every experiment, with one tuple in two hundred."""
    folder = tmp_path_factory.mktemp("grouping")
    for name in EXPERIMENTS:
        assert measure(name, folder, scale=0.005) == folder / f"{name}.json"
    return {name: kept(name, folder) for name in EXPERIMENTS}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_measures_what_the_page_shows(small: dict[str, list[Row]], name: str) -> None:
    whole = MEASURED[name]
    assert {row["strategy"] for row in small[name]} == {row["strategy"] for row in whole}
    assert list(small[name][0]) == list(whole[0])
    for row in small[name]:
        assert all(
            math.isfinite(value) and value >= 0 for value in row.values() if not isinstance(value, str)
        )


def test_figures_that_are_no_times_do_not_change_from_run_to_run(
    small: dict[str, list[Row]], tmp_path: Path
) -> None:
    measure("speeds", tmp_path, scale=0.005)
    times = {"ns", "boundary_ms"}
    for before, after in zip(small["speeds"], kept("speeds", tmp_path), strict=True):
        assert {k: v for k, v in before.items() if k not in times} == {
            k: v for k, v in after.items() if k not in times
        }


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5])
def test_a_scale_is_a_part(scale: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scale"):
        measure("speeds", tmp_path, scale)


@pytest.mark.parametrize("name", PLOTS)
def test_no_text_of_a_plot_is_cut_off(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = []

    def check(figure: Figure, *_: object, **__: object) -> None:
        figure.canvas.draw()
        drawn, page = figure.get_tightbbox(), figure.bbox_inches
        cut.append(drawn.x0 < 0 or drawn.y0 < 0 or drawn.x1 > page.x1 or drawn.y1 > page.y1)

    monkeypatch.setattr(Figure, "savefig", check)
    experiment, chosen, plot = PLOTS[name]
    plots.draw(plot, selected(MEASURED[experiment], **chosen), tmp_path / "x.svg")
    assert cut == [False]


def test_every_trial_has_its_plots(small: dict[str, list[Row]], tmp_path: Path) -> None:
    drawn = plots.draw_all(small["drift"], small["latency"], tmp_path)
    names = sorted(path.name for path in drawn)
    assert names == sorted(path.name for path in tmp_path.iterdir())
    assert "imbalance-by-batch-move-edu-64-workers.svg" in names
    assert len([name for name in names if name.startswith("latency-by-utilisation-zipf")]) == 1


# Tables.


def test_figures_have_three_digits() -> None:
    cells = (0.012345, 1.0, 99.96, 1234.5, 12_345, 0.0, 0.00000123, "text", None)
    assert [shown(cell) for cell in cells] == [
        "0.0123",
        "1",
        "100",
        "1,234",
        "12,345",
        "0",
        "1e-06",
        "text",
        "",
    ]


def test_a_pivot_keeps_the_order_in_which_figures_come_and_leaves_gaps() -> None:
    rows: list[Row] = [
        {"strategy": "b", "workers": 9, "x": 1.0},
        {"strategy": "a", "workers": 5, "x": 2.0},
        {"strategy": "b", "workers": 5, "x": 3.0},
    ]
    found = pivot(rows, "strategy", "workers", "x")
    assert found == TextTable(["strategy", "9", "5"], [["b", 1.0, 3.0], ["a", None, 2.0]])
    assert found.markdown().splitlines() == [
        "| strategy | 9 | 5 |", "| --- | ---: | ---: |", "| b | 1 | 3 |", "| a |  | 2 |",
    ]  # fmt: skip
