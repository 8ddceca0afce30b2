"""A test that fails by chance is named; one that fails again fails the whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluice_lab.waiting import until
from tests import __main__ as runner
from tests.__main__ import AGAIN_AT_MOST, TESTS_FAILED, Part, judge

pytestmark = pytest.mark.slow

#: Fails when it runs for the first time.
BY_CHANCE = """
from pathlib import Path
def test_it():
    seen = Path(__file__).with_name("seen")
    there, _ = seen.exists(), seen.touch()
    assert there
"""
#: Waits to be ended, and tells what its fixture did then.
WAITING = """
import time
from pathlib import Path
import pytest
@pytest.fixture
def held():
    Path("begun").touch()
    yield
    Path("cleaned").touch()
def test_it(held):
    time.sleep(600)
"""
RUNNER = """
from tests.__main__ import Part, end_on_sigterm, pytest
end_on_sigterm()
pytest(Part("part", "not stack", ()))
"""
PART = Part("part", "not stack", ())
STACK = "mark.{}".format("stack")  # this file has no test with the mark
MARKED = f"import pytest\n@pytest.{STACK}\ndef test_it():\n    pass\n"
#: Has the mark, but no text search finds it.
HIDDEN = "import pytest\npytestmark = getattr(pytest.mark, 'stack')\ndef test_it():\n    pass\n"
CHECKING = """
from pathlib import Path
from tests.marked import left_out
def pytest_collection_modifyitems(items):
    print("left out:", left_out(items, Path(__file__).parent))
"""


def nothing_broken() -> int:
    return 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = stack\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_test_that_passes_when_it_runs_again_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "test_chance.py").write_text(BY_CHANCE)
    code = runner.pytest(PART)
    assert (code, PART.failed()) == (TESTS_FAILED, ["test_chance.py::test_it"])
    assert judge({PART: code}, nothing_broken) == 0
    assert "FLAKY: test_chance.py::test_it failed" in capsys.readouterr().out


def test_a_test_that_fails_again_fails_the_whole(folder: Path) -> None:
    (folder / "test_wrong.py").write_text("def test_it():\n    assert False\n")
    assert judge({PART: runner.pytest(PART)}, nothing_broken) == 1


def test_what_cannot_be_repaired_fails_the_whole(folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_chance.py").write_text(
        f"import pytest\npytestmark = pytest.{STACK}\n{BY_CHANCE}"
    )
    on_the_stack = Part("part", "stack", (), of="stack")
    assert judge({on_the_stack: runner.pytest(on_the_stack)}, lambda: 1) == 1


def test_what_needs_no_platform_waits_for_no_repair(folder: Path) -> None:
    (folder / "test_chance.py").write_text(BY_CHANCE)
    assert judge({PART: runner.pytest(PART)}, lambda: 1) == 0


def test_many_failures_are_no_chance(folder: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range({}))\ndef test_it(n):\n    assert False\n"
    (folder / "test_many.py").write_text(text.format(AGAIN_AT_MOST + 1))
    code = runner.pytest(PART)
    (folder / "test_many.py").write_text("def test_it():\n    pass\n")
    assert judge({PART: code}, nothing_broken) == 1


def test_tests_that_cannot_run_fail_the_whole(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nunknown_option = 1\naddopts = --no-such-option\n")
    assert judge({PART: runner.pytest(PART)}, nothing_broken) == 1


def test_what_passes_does_not_run_again(folder: Path) -> None:
    (folder / "test_right.py").write_text("def test_it():\n    pass\n")
    assert judge({PART: runner.pytest(PART)}, nothing_broken) == 0


def test_a_part_imports_only_files_that_have_its_mark(folder: Path) -> None:
    (folder / "tests" / "here").mkdir(parents=True)
    (folder / "tests" / "test_marked.py").write_text(MARKED)
    (folder / "tests" / "here" / "test_by_a_parameter.py").write_text("def test_it(given):\n    pass\n")
    (folder / "tests" / "here" / "conftest.py").write_text(
        f"import pytest\n@pytest.fixture(params=[pytest.param(1, marks=pytest.{STACK})])\n"
        "def given(request):\n    return request.param\n"
    )
    (folder / "tests" / "test_other.py").write_text("raise AssertionError('it is not imported')\n")
    assert runner.pytest(Part("part", "stack", ("-q",), of="stack")) == 0
    assert runner.pytest(Part("part", "stack", ("-q",))) == 2


def test_a_test_whose_mark_is_not_found_is_named(folder: Path) -> None:
    (folder / "conftest.py").write_text(CHECKING)
    (folder / "test_marked.py").write_text(MARKED)
    (folder / "test_hidden.py").write_text(HIDDEN)
    there = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", "-s", "--collect-only"]
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=True)
    assert "left out: ['test_hidden.py::test_it']" in done.stdout


def test_sigterm_ends_the_tests_and_their_fixtures_first(folder: Path) -> None:
    (folder / "test_waiting.py").write_text(WAITING)
    there = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", RUNNER], env=there, stdout=subprocess.DEVNULL) as running:
        until((folder / "begun").exists, what="the test has begun")
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 128 + signal.SIGTERM
        assert (folder / "cleaned").exists()
