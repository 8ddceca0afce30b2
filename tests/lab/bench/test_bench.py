"""The benches' own arithmetic, and docs/performance.md as a page that the generator writes."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice.runtime.settings import ROOT, Settings
from sluice.stack.progress import CountedTopic, SpeedLayerProgress
from sluice.state.merging import merge_into_blocks
from sluice_lab.bench import contenders, end_to_end, flume, hbase, kernels, page, pressure, tasks, workload
from sluice_lab.bench import start as start_bench
from sluice_lab.bench.__main__ import BENCHES, main, parser
from sluice_lab.bench.outcome import Bar, Curve, Outcome, Table, number
from sluice_lab.bench.pressure import Seen
from sluice_lab.bench.timing import better, interleaved, ratio
from tests.engine.samples import by_hand, records
from tests.own_time import own_time


def sample(figure: float = 12.5) -> Outcome:
    return Outcome(
        bench="tasks",
        what="What was measured.",
        bars=[Bar("64 tasks", figure, 10.0), Bar("results a second", 41_234.0, 40_000.0, unit="/s")],
        tables=[Table("Rates", ["tasks", "sluice"], [["1", 1234.5], ["256", None]])],
        curves=[Curve("Rates", "tasks", "lines a second", {"sluice": [[1.0, 4.0], [2.0, 3.0]]})],
        machine="2 cores",
        at="2026-11-21T12:00+00:00",
    )


def test_a_bar_holds_on_its_side_of_the_limit() -> None:
    assert Bar("", 10.0, 10.0).holds
    assert not Bar("", 9.99, 10.0).holds
    assert Bar("", 5.0, 5.0, "most").holds
    assert not Bar("", 5.1, 5.0, "most").holds
    assert not Bar("", math.nan, 5.0, "most").holds
    assert not Bar("", math.nan, 5.0).holds


def test_the_file_of_a_bench_is_a_list_of_bars(tmp_path: Path) -> None:
    path = sample(9.0).write(tmp_path)
    bars = json.loads(path.read_text())
    assert [(b["bar"], b["figure"], b["limit"], b["holds"]) for b in bars] == [
        ("64 tasks", 9.0, 10.0, False),
        ("results a second", 41_234.0, 40_000.0, True),
    ]
    assert Outcome.read(tmp_path / "measured" / "tasks.json") == sample(9.0)


@pytest.mark.slow
def test_rounds_are_interleaved_and_their_ratios_have_a_median() -> None:
    order: list[str] = []
    ways = {name: (lambda name=name: order.append(name)) for name in "ab"}
    times = interleaved(ways, rounds=2, warm=1)
    assert sorted(order) == ["a"] * 3 + ["b"] * 3
    assert order[2:] == ["a", "b", "b", "a"]
    assert [len(seconds) for seconds in times.values()] == [2, 2]
    assert ratio({"slow": [4.0, 9.0, 8.0], "fast": [1.0, 3.0, 8.0]}, "slow", "fast") == 3.0


@pytest.mark.slow
def test_the_slower_rival_takes_part_in_the_first_round_only() -> None:
    order: list[str] = []
    ways = {
        name: (lambda name=name: (order.append(name), time.sleep(0.05 * (name == "slow"))))
        for name in ("ours", "slow", "fast")
    }
    times = interleaved(ways, rounds=3, warm=1, rivals=("slow", "fast"))
    assert {name: len(seconds) for name, seconds in times.items()} == {"ours": 3, "slow": 1, "fast": 3}
    assert (len(order), better(times, ("slow", "fast"))) == (3 + 3 + 2 + 2, "fast")
    assert better({"slow": [0.1], "fast": [0.2, 0.3]}, ("slow", "fast")) == "fast"
    assert better({"slow": [0.3, 0.1], "fast": [0.2, 0.4]}, ("slow", "fast")) == "slow"


def test_no_two_tasks_have_a_dimension_set_or_a_filter_in_common() -> None:
    specs = workload.tasks(256)
    assert len({frozenset(d.extract.index for d in s.dimensions) for s in specs}) == 256
    assert len({s.where for s in specs}) == 256
    assert workload.tasks(4) == specs[:4]
    assert len({s.measure for s in specs[:8]}) == 8


@pytest.mark.slow
def test_the_engine_counts_the_made_lines_as_plain_python_does() -> None:
    lines = workload.lines(500, seconds=120)
    specs = workload.tasks(8)
    batch = records(lines.to_pylist())
    plan = EnginePlan.of(workload.active(specs), Limits())
    rows = contenders.engine_rows(count(batch, plan).partials).to_pylist()
    found: dict[int, dict[tuple[int, str], tuple[float, ...]]] = {n: {} for n in range(8)}
    for row in rows:
        found[row["task"]][row["start"], row["key"]] = (row["lines"], row["sum"])
    for n, spec in enumerate(specs):
        wanted = by_hand(lines.to_pylist(), spec)
        assert found[n].keys() == {(start, "_".join(values)) for start, values in wanted}
        for (start, values), metrics in wanted.items():
            lines_, total = found[n][start, "_".join(values)]
            assert lines_ == metrics["count"]
            assert total == pytest.approx(metrics.get("sum"))


def test_lines_are_made_once(tmp_path: Path) -> None:
    first = workload.log(1_001, 60, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in first.iterdir()}
    assert workload.log(1_001, 60, tmp_path) == first
    assert {path: path.stat().st_mtime_ns for path in first.iterdir()} == times
    table = pq.read_table(first, partitioning=None)
    assert table.num_rows == 1_001


def test_ways_that_disagree_are_not_timed() -> None:
    rows = {
        "task": [0],
        "start": [0],
        "key": ["a"],
        "lines": [1],
        "measured": [1],
        "min": [1.0],
        "max": [1.0],
    }
    right, wrong = pa.table(rows | {"sum": [1.0]}), pa.table(rows | {"sum": [1.1]})
    assert contenders.check_equal("a", right, right) == 1
    with pytest.raises(contenders.Disagree, match="column sum"):
        contenders.check_equal("b", right, wrong)
    with pytest.raises(contenders.Disagree, match="2 results, expected 1"):
        contenders.check_equal("b", right, pa.concat_tables([right, right]))


def test_the_bars_of_tasks() -> None:
    seconds = {1: (1.0, 0.9, 2.0), 4: (1.3, 3.0, 5.0), 16: (2.5, 9.0, 20.0), 64: (7.3, 80.0, 99.0)}
    measured = {n: {"sluice": [a], "explode": [b], "union": [c]} for n, (a, b, c) in seconds.items()} | {
        256: {"sluice": [26.5]}
    }
    found = {bar.bar: bar for bar in tasks.outcome(measured, 2_000_000, 10, quick=False).bars}
    many, one, *costs = found.values()
    assert (round(many.figure, 2), many.holds) == (10.96, True)
    assert (one.figure, one.holds) == (0.9, True)
    assert all(cost.holds for cost in costs)


def test_a_start_is_judged_by_the_time_on_processors() -> None:
    spent = {
        "as Sluice does": [(5.0, 10.0), (6.0, 10.0), (5.0, 10.0)],
        "no archive": [(15.0, 20.0), (12.0, 20.0), (20.0, 20.0)],
        "compiled soon": [(4.0, 9.0), (6.0, 12.0), (4.0, 8.0)],
    }
    found = start_bench.outcome({name: [6.0, 7.0, 8.0] for name in spent}, spent, quick=False)
    assert [(bar.figure, bar.holds) for bar in found.bars] == [(3.0, True), (0.9, False)]
    assert [row[1:] for row in found.tables[0].rows] == [[7.0, 5.0, 10.0], [7.0, 15.0, 20.0], [7.0, 4.0, 9.0]]


def test_a_page_can_be_read_back() -> None:
    text = page.section(sample())
    assert page.bars(text)["tasks"] == [
        Bar("64 tasks", 12.5, 10.0),
        Bar("results a second", 41_234.0, 40_000.0, unit="/s"),
    ]
    with pytest.raises(ValueError, match="say otherwise"):
        page.bars(text.replace("12.5 x", "9.5 x"))


@pytest.mark.slow
def test_the_page_and_its_plots_are_written(tmp_path: Path) -> None:
    sample().write(tmp_path)
    page.write(tmp_path, tmp_path / "page.md", tmp_path / "images")
    assert "(images/bench-tasks.svg)" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "images" / "bench-tasks.svg").read_text().startswith("<?xml")
    with pytest.raises(SystemExit, match="make bench"):
        page.write(tmp_path / "nowhere", tmp_path / "page.md", tmp_path / "images")


@pytest.mark.slow
def test_the_page_keeps_what_was_measured_on_another_machine_and_the_notes(tmp_path: Path) -> None:
    elsewhere = replace(sample(), bench="sketches", what="Measured elsewhere.")
    stale = replace(sample(), what="Measured before.")
    made = tmp_path / "page.md"
    notes = f"## {page.NOTES}\n\n- **A pass has 262,144 lines.**\n"
    made.write_text("\n".join([page.HEADER, page.section(elsewhere), page.section(stale), notes]))
    sample().write(tmp_path)
    page.write(tmp_path, made, tmp_path / "images")
    parts = [page.HEADER, page.section(sample()), page.section(elsewhere), notes]
    assert made.read_text() == "\n".join(parts)
    assert list(page.bars(made.read_text())) == ["tasks", "sketches"]


@pytest.mark.skipif(not page.PAGE.exists(), reason="nothing was measured yet")
def test_the_performance_page_is_made_by_this_generator() -> None:
    text = page.PAGE.read_text()
    assert text.startswith(page.HEADER)
    shown = page.bars(text)
    assert set(shown) <= set(BENCHES)
    for image in re.findall(r"\((images/[^)]+)\)", text):
        assert (ROOT / "docs" / image).exists()
    for name in shown:
        assert f"`python -m sluice_lab.bench {name}`" in text


def test_the_command_knows_its_benches(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser().parse_args([]).names == []
    assert parser().parse_args(["tasks", "--quick"]).names == ["tasks"]
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err


def test_a_bench_reports_its_bars_and_whether_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Outcome, "write", lambda _: tmp_path / "tasks.json")
    assert [sample(12.5).report(), sample(9.0).report()] == [0, 1]
    said = capsys.readouterr().out
    assert "holds  64 tasks: 12.5" in said
    assert "FAILS  64 tasks: 9" in said
    assert f"{tmp_path / 'tasks.json'}\n" in said


def test_numbers_for_people() -> None:
    assert [number(x) for x in (1234.6, 12.345, 0.01234, 7, math.nan)] == [
        "1,235",
        "12.3",
        "0.0123",
        "7",
        "not measured",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("way", kernels.WAYS)
def test_every_way_of_the_pass_counts_the_same(way: str) -> None:
    specs = workload.tasks(16)
    batch = records(workload.lines(3_000, seconds=120).to_pylist())
    found = kernels.WAYS[way](batch, specs)
    assert contenders.check_equal(way, kernels.sluice(batch, specs), found) > 1_000


def seen(at: float, lag: int, memory: int = 100) -> Seen:
    written = 1_000 + round(1_000 * at)
    return Seen(at, written, written - lag, lag, memory, memory, 300, 1, pass_us=round(2_000 * at))


def test_the_lag_of_a_rate_that_is_held_has_no_slope() -> None:
    sawtooth = [seen(float(n), 500 + 100 * (n % 2)) for n in range(100)]
    assert abs(end_to_end.slope(sawtooth)) < 1
    assert end_to_end.slope([seen(float(n), 50 * n) for n in range(10)]) == pytest.approx(50)


def test_the_bars_of_the_whole_platform() -> None:
    hold = [seen(float(n), 500, 100 + n // 50) for n in range(60)]
    found = end_to_end.EndToEndFigures(
        12_000.0, hold, {"edges": 2.0, "HBase": 15.0}, [1.0] * 98 + [4.0, math.inf], 0.2, 60.0, 15_000.0
    )
    bars = {bar.bar: bar for bar in end_to_end.outcome(found, "", quick=True).bars}
    held = [False, True, True, False, True, False, True, True, True, True]
    assert [bar.holds for bar in bars.values()] == held
    assert bars["CPU of the platform a line over that of the pass"].figure == pytest.approx(17 / 2)
    assert bars["freshness at half that rate, 99th percentile"].figure == math.inf


@pytest.mark.slow
def test_memory_is_measured_every_ten_seconds_and_the_lag_at_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, now, measured = Settings(instance="trial", home=tmp_path), [100.0], []
    topic = CountedTopic(token="t", lines=7, pass_us=12)
    progress = SpeedLayerProgress(pid=1, topics={"logs": topic})
    monkeypatch.setattr(pressure.jobs, "speed_layer", lambda _: progress)
    own_time(monkeypatch, pressure, monotonic=lambda: now[0])
    monkeypatch.setattr(
        pressure.PlatformWatch, "_measure", lambda _: (measured.append(now[0]), (len(measured), 0))[1]
    )
    watch = pressure.PlatformWatch(settings, pressure.TrafficWriter(settings))
    for _ in range(25):
        watch.look()
        now[0] += 1
    assert measured == [100.0, 110.0, 120.0]
    assert [seen.memory for seen in watch.seen] == [1] * 10 + [2] * 10 + [3] * 5
    assert {seen.pass_us for seen in watch.seen} == {12}


def test_the_writer_keeps_a_rate_in_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(instance="trial", home=tmp_path)
    monkeypatch.setattr(pressure, "TEMPLATES", 1_000)
    with pressure.TrafficWriter(settings) as writer:
        writer.rate = 2_000.0
        time.sleep(0.5)
        writer.rate = 0.0
    writer.probe("probe-1")
    lines = b"".join(path.read_bytes() for path in tmp_path.rglob("*.log")).splitlines()
    assert len(lines) == writer.written
    assert 300 < writer.written < 2_000
    counted = count(records(lines), EnginePlan.of(workload.active(workload.tasks(1)), Limits()))
    assert counted.reason.null_count == len(lines)  # every line has its time


def test_stretches_in_turn_load_partitions_evenly_and_hashed_ones_do_not() -> None:
    assert flume.imbalance(list(range(5, 5 + 3 * flume.PARTITIONS))) == 1
    assert flume.imbalance([1, 1, 1, 2]) == 3 / (4 / flume.PARTITIONS)
    for shape, in_turn, hashed in flume.loads().rows:
        assert 1 <= in_turn <= hashed, shape  # type: ignore[operator]


def test_the_bars_of_flume_are_shares_of_what_a_line_cost_before() -> None:
    found = flume.outcome({"edge": 2.0, "collector": 6.0}, 100_000.0, 3_000, "", quick=True)
    bars = {bar.bar.split()[3]: bar for bar in found.bars}
    assert bars["edge"].figure == pytest.approx(2.0 / flume.BEFORE["edge"])
    assert not bars["edge"].holds
    assert bars["collector"].holds


def test_the_state_that_hbase_gets_touches_every_bucket() -> None:
    partials, layouts = hbase.wide_batches(tasks=2)
    first = merge_into_blocks(partials[0], layouts, lambda blocks: {})
    assert len(first.blocks) == 2 * hbase.PERIODS * hbase.BUCKETS
    assert max(map(len, first.blocks.values())) < hbase.BLOCK_LIMIT


class MemoryStore:
    """An HBase with only what the state's batches use."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}

    def put(self, table: str, rows: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        self.rows.update(rows)

    def get(self, table: str, rows: list[bytes], columns: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
        return {row: self.rows[row] for row in rows}


def test_the_second_batch_is_merged_into_the_blocks_of_the_first() -> None:
    store = MemoryStore()
    partials, layouts = hbase.wide_batches(tasks=1)
    first, second = hbase.State(store).batches(partials, layouts)  # type: ignore[arg-type]
    assert len(first.sizes) == len(second.sizes) == len(store.rows) == hbase.PERIODS * hbase.BUCKETS
    assert first.laps["read"] < second.laps["read"]
    assert hbase.largest([first, second]) == max(second.sizes + first.sizes)
