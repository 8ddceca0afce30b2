"""Rival schedulers follow their rules, ours is near the optimum, and docs/placement.md says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.measures import colocations, load_spread
from sluice.placement.plan import plan
from sluice.placement.usage import slots_used
from sluice_lab.commands.grouping import app
from sluice_lab.placement import page
from sluice_lab.placement.bars import bars
from sluice_lab.placement.experiments import rows
from sluice_lab.placement.inputs import paper, random_inputs
from sluice_lab.placement.live import section
from sluice_lab.placement.optimum import fewest_moves, least_busiest, within
from sluice_lab.placement.rivals import SCHEDULERS
from sluice_lab.tables import selected

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_places_every_unit_where_it_fits(name: str) -> None:
    for given in random_inputs(10):
        cluster = given.first
        placed = SCHEDULERS[name](cluster)
        used = slots_used(cluster, placed)
        assert all(used[host.name] <= host.slots for host in cluster.hosts)
        left = [unit for unit in cluster.units if unit.name not in placed]
        for unit in left:
            assert all(host.slots - used[host.name] < unit.slots for host in cluster.hosts)


def test_storm_08_makes_the_papers_default_and_todays_schedulers_are_even() -> None:
    cluster = paper().first
    found = {
        name: tuple(slots_used(cluster, placer(cluster)).values()) for name, placer in SCHEDULERS.items()
    }
    assert found["storm-0.8"] == (5, 4, 1)
    assert found["storm"] == found["paper"] == found["flink-slots"] == (4, 3, 3)
    assert found["spark"] == (3, 3, 4)


def test_r_storm_keeps_a_topology_together() -> None:
    hosts = (HostSlots("a", 4, 1.0), HostSlots("b", 4, 1.0))
    units = tuple(Unit(f"u{n}", load=1.0, application="t") for n in range(3))
    assert set(SCHEDULERS["r-storm"](Cluster(hosts, units)).values()) == {"a"}


def test_the_optimum_of_a_cluster_that_can_be_checked_by_hand() -> None:
    hosts = (HostSlots("a", 4, 1.0), HostSlots("b", 4, 1.0))
    units = tuple(Unit(f"u{load}", load=float(load)) for load in (5, 4, 3, 3, 3))
    cluster = Cluster(hosts, units, {unit.name: "a" for unit in units})
    alike = Cluster(hosts, tuple(Unit(f"u{n}", load=load) for n, load in enumerate((5, 4, 3, 3, 3.0))))
    assert least_busiest(alike) == pytest.approx(1.0, abs=1e-3)
    three = Cluster(hosts, (Unit("x", load=2.0), Unit("y", load=1.0), Unit("z", load=1.0)), {
        "x": "a", "y": "a", "z": "a"})  # fmt: skip
    assert fewest_moves(three, {"a": 1.0, "b": 1.0}, 0.0) == 1
    assert cluster.running() == cluster.placed


def test_ours_is_next_to_the_optimum_on_some_random_inputs() -> None:
    small = [given for given in random_inputs(12) if len(given.first.units) <= 7][:3]
    assert small
    for given in small:
        placed = plan(given.first).result(given.first)
        best = least_busiest(given.first)
        assert best is not None
        assert 1 + load_spread(given.first, placed) <= best * 1.05
        assert colocations(given.first, placed) == 0
        cluster = given.joined(placed)
        after = plan(cluster)
        fewest = fewest_moves(cluster, *within(cluster, after.result(cluster), 0.15))
        assert fewest is not None
        assert fewest <= len(after.moves) <= fewest + 1


def test_random_inputs_are_the_same_for_the_same_seed() -> None:
    assert list(random_inputs(3)) == list(random_inputs(3))
    assert list(random_inputs(3, seed=8)) != list(random_inputs(3, seed=9))


def test_what_is_kept_of_the_papers_experiment_is_what_is_computed() -> None:
    kept = page.load()["paper"]
    for row, again in zip(kept, rows("paper", 0, 0, 0), strict=True):
        assert (row["contender"], row["slots"], row["moved"]) == (
            again["contender"], again["slots"], again["moved"],
        )  # fmt: skip


def test_the_page_is_made_of_what_was_kept(tmp_path: Path) -> None:
    assert page.PAGE.read_text() == page.render(page.load()), "run: sluice lab placement --page"
    written = page.write(tmp_path / "placement.md")
    for name in [*page.PLOTS, *(f"live-{each}" for each in section.drawn(page.load()))]:
        image = Path("images") / f"placement-{name}.svg"
        assert (written.parent / image).read_bytes() == (page.PAGE.parent / image).read_bytes()


def test_the_page_shows_every_bar_and_whether_it_holds() -> None:
    text = page.PAGE.read_text()
    for bar in bars(page.load()):
        assert f"| {bar.name} | {bar.figure} | {'holds' if bar.holds else '**fails**'} |" in text


def test_the_command_exits_with_1_where_a_bar_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = page.load()
    (tmp_path / "placement.md").write_text(page.render(measured))
    monkeypatch.setattr(page, "write", lambda: tmp_path / "placement.md")
    monkeypatch.setattr(page, "load", lambda: measured)
    expected = 0 if all(bar.holds for bar in bars(measured)) else 1
    assert CliRunner().invoke(app, ["placement", "--page"]).exit_code == expected
    slow = [{**row, "seconds": 2.0} for row in selected(measured["large"])]
    measured["large"] = slow
    failed = CliRunner().invoke(app, ["placement", "--page"])
    assert failed.exit_code == 1
    (broken,) = (bar.name for bar in bars(measured) if not bar.holds)
    assert f"fails: {broken}: " in failed.stderr
