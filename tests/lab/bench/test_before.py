"""The bench `before`: what it compares, and the tree that it checks out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice_lab.bench import before
from sluice_lab.bench.outcome import Bar, Outcome, Table

#: In the place of a tree's bench: notes how it was run.
END_TO_END = """
from pathlib import Path
from typing import NamedTuple
class Times(NamedTuple):
    overload: float
    trial: float
    hold: float
    fresh: float
    empty: float
class Outcome:
    def write(self):
        pass
def run(quick):
    Path("ran").write_text(" ".join(map(str, (*QUICK, quick))))
    return Outcome()
"""


def sample(rate: float, median: float) -> Outcome:
    rows = [
        [before.FIGURES[0], rate],
        [before.FIGURES[1], rate * 1.1],
        [before.FIGURES[2], 5.0],
        ["other", 1.0],
    ]
    bars = [Bar(name, median, 9.0, "most", "s") for name in before.BARS]
    return Outcome("end_to_end", "", bars, [Table("Figures", ["figure", "value"], rows)], quick=True)


def test_todays_rate_is_held_against_the_one_before() -> None:
    found = before.outcome(sample(6_400, 1.7), sample(41_000, 1.5), "", quick=False)
    (bar,) = found.bars
    assert (bar.figure, bar.holds) == (pytest.approx(41 / 6.4), True)
    assert not before.outcome(sample(6_400, 1.7), sample(39_000, 1.5), "", quick=False).bars[0].holds
    rows = {row[0]: row[1:] for row in found.tables[0].rows}
    assert rows["freshness at half that rate, median, s"] == [1.7, 1.5, pytest.approx(1.5 / 1.7)]
    assert "other" not in rows


def test_each_tree_runs_its_own_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for benches in (before.BENCHES_BEFORE, before.BENCHES):
        tree = tmp_path / benches
        package = tree / "include" / Path(*benches.split("."))
        package.mkdir(parents=True)
        (tree / "include" / "sluice").mkdir()
        (tree / "include" / "sluice" / "metrics.py").write_text("def load_team(): pass\n")
        for each in (tree / "include" / "sluice", package, package.parent):
            (each / "__init__.py").touch()
        (package / "end_to_end.py").write_text(END_TO_END)
        measured = tree / "var" / "bench" / "quick" / "measured"
        measured.mkdir(parents=True)
        sample(6_400, 1.7).write(tree / "var" / "bench")
        before.measured(tree, benches, (1, 2, 3, 4, 5))
        assert (tree / "ran").read_text() == "1.0 2.0 3.0 4.0 5.0 True"


@pytest.mark.slow
@pytest.mark.long
def test_a_tree_runs_its_own_code_and_goes_away() -> None:
    with before.checked_out("HEAD") as tree:
        env = before.environment(tree, {"PATH": "/usr/bin:/bin", "SLUICE_HOME": "/nowhere"})
        code = "import sluice.runtime.settings as s, sluice_lab as b; print(s.ROOT, s.__file__, b.__file__)"
        said = subprocess.run(
            [sys.executable, "-c", code], cwd=tree, env=env, capture_output=True, text=True, check=True
        )
        assert [Path(path).is_relative_to(tree) for path in said.stdout.split()] == [True, True, True]
        assert (tree / ".venv" / "bin" / "python").exists()
    assert not tree.exists()
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True)
    assert str(tree) not in listed.stdout
