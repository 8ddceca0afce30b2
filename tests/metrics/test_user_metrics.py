"""Metrics that a team writes itself: the example, the refusals, and a metric that fails."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics import METRICS, Batch, Metric, UnknownMetric, metric
from sluice.metrics.registry import team as loaded
from sluice.metrics.team import Team, load
from sluice.metrics.team_metric import UserMetricFailed
from sluice.metrics.user import MAX_STATE
from sluice.runtime.settings import ROOT, metrics_folder
from sluice.spark.session import package_zip
from tests.examples import examples
from tests.metrics.states import added, merged, numeric, textual, values

HEAD = "import pyarrow.compute as pc\nfrom sluice.metrics.user import UserMetric\n"
LONGEST = """
class Longest(UserMetric[int]):
    name, measure = "longest", "text"
    def zero(self): return 0
    def add(self, state, values): return max(state, pc.max(pc.utf8_length(values)).as_py())
    def merge(self, a, b): return max(a, b)
    def result(self, state): return state
"""


@pytest.fixture(autouse=True)
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What files of tests define is not kept."""
    monkeypatch.setattr("sluice.metrics.team.KNOWN", tmp_path / "known")


def team(**files: str) -> Team:
    return load({f"{name}.py": HEAD + text for name, text in files.items()}, METRICS.__contains__)


def longest(**changed: str) -> Metric:
    """`longest` with some of its functions replaced."""
    functions = "".join(f"\n    def {name}({of}): {body}" for name, (of, body) in _bodies(changed).items())
    found = team(longest=f"{LONGEST}\nclass Changed(Longest):\n    name = 'changed'{functions}\n")
    assert not found.problems
    return found.metrics["changed"]


def _bodies(changed: dict[str, str]) -> dict[str, tuple[str, str]]:
    arguments = {
        "add": "self, state, values",
        "merge": "self, a, b",
        "zero": "self",
        "from_bytes": "self, data",
    }
    return {name: (arguments.get(name, "self, state"), body) for name, body in changed.items()}


def run(own: Metric, *batches: Batch) -> list[float]:
    (accumulator,) = own.accumulators
    (name,) = accumulator.columns
    states = pa.concat_arrays([accumulator.add(batch)[name] for batch in batches])
    groups = np.concatenate([np.arange(batch.size) for batch in batches])
    return own.results(accumulator.merge({name: states}, groups, batches[0].size)).values.tolist()


def test_the_example_is_loaded_like_any_other() -> None:
    assert metrics_folder() == ROOT / "include" / "metrics"
    assert loaded().problems == {}
    assert metric("geometric_mean").measure == "number"
    assert "user_geometric_mean" in added(numeric([0], [1.0], 1), "geometric_mean")


@examples(40)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.floats(-10, 1e9) | st.just(math.nan)), max_size=20),
        min_size=1,
        max_size=4,
    )
)
def test_the_example_in_any_split(parts: list[list[tuple[int, float]]]) -> None:
    rows = [row for part in parts for row in part]
    states = [
        added(numeric([g for g, _ in part], [v for _, v in part], 3), "geometric_mean") for part in parts
    ]
    for order in (states, states[::-1]):
        for group, found in enumerate(values(merged(3, *order), "geometric_mean")):
            own = [v for g, v in rows if g == group and v > 0]
            if own:
                assert math.isclose(found, statistics.geometric_mean(own), rel_tol=1e-9)
            else:
                assert found is None


def test_texts_reach_a_metric_of_texts() -> None:
    own = team(longest=LONGEST).metrics["longest"]
    assert own.measure == "any"
    batches = [textual([0, 0, 1, 2], ["a", "éé", "-", None], 3), textual([1, 2], ["abc", ""], 3)]
    assert str(run(own, *batches)) == "[2.0, 3.0, nan]"
    rows = np.array([1])
    assert str(run(own, textual([1], ["abc", "ab"], 2, rows))) == "[nan, 2.0]"


def test_an_integer_is_exact() -> None:
    own = longest(result="return 2**60 + 1")
    (accumulator,) = own.accumulators
    found = own.results(accumulator.add(textual([0], ["a"], 1)))
    assert found.integers is not None
    assert found.integers.tolist() == [2**60 + 1]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"add": "return 1 / 0"}, "failed in add: ZeroDivisionError: division by zero"),
        ({"add": "return {1: {2}}"}, "failed in add: TypeError: .*not JSON serializable"),
        (
            {"add": f"return 'x' * {MAX_STATE}"},
            "failed in add: ValueError: a state of 65538 bytes, at most 65536",
        ),
        ({"add": "raise SystemExit(3)"}, "failed in add: SystemExit: 3"),
        (
            {"merge": "return a + b + (1 if a + b == 0 else [])"},
            "failed in merge: TypeError: unsupported operand",
        ),
        ({"result": "return 'many'"}, "failed in result: TypeError: result is str, a number or None"),
        ({"result": "return True"}, "failed in result: TypeError: result is bool"),
        ({"result": "return float('inf')"}, "failed in result: ValueError: result is infinite"),
        ({"result": "return state.nothing"}, "failed in result: AttributeError"),
    ],
)
def test_a_failing_metric_says_whose_it_is(changed: dict[str, str], says: str) -> None:
    own = longest(**changed)
    with pytest.raises(UserMetricFailed, match=f"metric 'changed' of longest.py {says}"):
        run(own, textual([0], ["a"], 1), textual([0], ["b"], 1))


@pytest.mark.parametrize("none", ["None", "float('nan')"])
def test_none_is_no_result(none: str) -> None:
    assert math.isnan(run(longest(result=f"return {none}"), textual([0], ["a"], 1))[0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class Broken(", "SyntaxError: '(' was never closed (broken.py, line 3)"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = 1", "no subclass of UserMetric is defined here: define one, or move the file"),
        (
            "class Half(UserMetric):\n    name = 'half'\n    def zero(self): return 0",
            "Half lacks add, merge, result",
        ),
        (LONGEST.replace('"longest"', '"count"'), "class Longest: there is a metric 'count' already"),
        (LONGEST.replace('"longest"', '"Longest one"'), "class Longest: name 'Longest one': use a-z"),
        (LONGEST.replace('name, measure = "longest", "text"', "pass"), "class Longest: name None: use a-z"),
        (LONGEST.replace('"text"', '"texts"'), "class Longest: measure 'texts': use number or text"),
        (LONGEST + LONGEST.replace("Longest", "Other"), "there is a metric 'longest' already"),
        (
            LONGEST.replace("return 0", "return {1, 2}"),
            "TypeError: Object of type set is not JSON serializable",
        ),
        (
            LONGEST.replace("return max(a, b)", "return a.b"),
            "AttributeError: 'int' object has no attribute 'b'",
        ),
    ],
)
def test_a_broken_file_is_refused_by_name_and_the_others_load(text: str, says: str) -> None:
    found = team(broken=text, sound=LONGEST.replace('"longest"', '"sound"'))
    assert list(found.metrics) == ["sound"]
    assert list(found.sources) == ["sound.py"]
    assert says in found.problems["broken.py"]


def test_two_files_cannot_define_the_same_metric() -> None:
    found = team(a=LONGEST, b=LONGEST)
    assert "there is a metric 'longest' already" in found.problems["b.py"]


def test_the_error_of_an_unknown_metric_names_the_broken_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loaded().problems, "mine.py", "NameError: x")
    with pytest.raises(UnknownMetric, match=r"geometric_mean.*; mine\.py is not loaded: NameError: x"):
        metric("mine")


@pytest.mark.slow
def test_the_registry_takes_them_from_the_folder_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "longest.py").write_text(HEAD + LONGEST)
    (tmp_path / "broken.py").write_text("class")
    (tmp_path / "_helper.py").write_text("raise ValueError")
    (tmp_path / "notes.txt").write_text("no Python")
    script = (
        "from sluice.metrics import load_team, metric\n"
        "from sluice.engine.schema import partials_schema\n"
        "team = load_team()\n"
        "print(metric('longest').name, partials_schema().field('user_longest').type, *team.problems)"
    )
    assert _python(script, SLUICE_METRICS__PATH=str(tmp_path)) == "longest binary broken.py"
    script = "from sluice.metrics import load_team; print(load_team().metrics)"
    assert _python(script, SLUICE_METRICS__PATH="none") == "{}"


@pytest.mark.slow
def test_a_program_that_forgot_to_load_them_gets_an_error() -> None:
    script = (
        "from sluice.metrics import NotLoaded, metric\n"
        "print(metric('count').name)\n"
        "try: metric('longest')\n"
        "except NotLoaded as error: print(error)"
    )
    assert "call sluice.metrics.load_team() at the start" in _python(script)


@pytest.mark.slow
def test_a_running_layer_s_workers_load_what_it_loaded(tmp_path: Path) -> None:
    """The folder is copied, named by its content: changing it does not change what runs."""
    found = team(longest=LONGEST, broken="class")
    folder = found.write(tmp_path)
    assert {p.name for p in folder.iterdir()} == {"longest.py", "described.json"}
    assert found.write(tmp_path) == folder
    assert team(longest=LONGEST + "\n").write(tmp_path) != folder
    assert (
        _python(
            "from sluice.metrics import load_team, metric; load_team(); print(metric('longest').name)",
            SLUICE_METRICS__PATH=str(folder),
        )
        == "longest"
    )


@pytest.mark.stack  # needs none, but compiles the kernels again
def test_executors_get_them_in_the_package(tmp_path: Path) -> None:
    """The metrics and the kernels that they need come from the zip alone, without the checkout."""
    package = package_zip(tmp_path)
    with zipfile.ZipFile(package) as inside:
        assert "sluice/metrics/shipped/geometric_mean.py" in inside.namelist()
    script = (
        "import sys; sys.meta_path = [m for m in sys.meta_path if 'editable' not in repr(m)]\n"
        "sys.path = [p for p in sys.path if not p.endswith('include')]\n"
        f"sys.path.insert(0, {str(package)!r})\n"
        "import sluice, numpy as np\n"
        "from sluice.metrics import Batch, Numbers, accumulators, load_team, metric\n"
        "load_team()\n"
        "batch = Batch(np.zeros(3, np.int64), 1, Numbers(np.array([1.0, 2.0, 4.0])))\n"
        "columns = {n: c for a in accumulators(['p50', 'geometric_mean']) for n, c in a.add(batch).items()}\n"
        "found = [metric(m).results(columns).values[0] for m in ('p50', 'geometric_mean')]\n"
        "print('.zip' in sluice.__file__, *found)"
    )
    assert _python(script) == "True 2.0 2.0"


def _python(script: str, **environment: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
