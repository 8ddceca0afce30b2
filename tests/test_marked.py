"""A run does not import files of which it chooses no test, and imports all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.marked import refused, whole

pytest_plugins = ["pytester"]

#: The marks as these files write them; this one has none of them.
SLOW, LONG = (f"mark.{name}" for name in ("slow", "long"))
ALL_SLOW = f"import pytest\npytestmark = pytest.{SLOW}\n"
ALL_LONG = f"import pytest\npytestmark = [pytest.{SLOW}, pytest.{LONG}]\n"
ONE_SLOW = (
    f"import pytest\n@pytest.{SLOW}\ndef test_it(): ...\nclass TestIt:\n    pytestmark = pytest.{SLOW}\n"
)


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("", set()),
        ("slow", set()),
        ("not slow", {"slow"}),
        ("not stack and  not slow and long", {"stack", "slow"}),
        ("stack and not e2e", {"e2e"}),
        ("not slow or stack", set()),
        ("not (slow and stack)", set()),
        ("not slow and (not long or stack)", set()),
        ("not not slow", set()),
        ("not slow(seconds=1)", set()),
    ],
)
def test_marks_that_an_expression_forbids(expression: str, marks: set[str]) -> None:
    assert refused(expression) == marks


@pytest.mark.parametrize(
    ("text", "marks"), [(ALL_SLOW, {"slow"}), (ALL_LONG, {"slow", "long"}), (ONE_SLOW, set()), ("", set())]
)
def test_marks_of_all_tests_of_a_file(text: str, marks: set[str], tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    assert whole(file) == marks


def test_a_folder_has_the_marks_that_all_its_files_have(tmp_path: Path) -> None:
    for name, text in {"test_one.py": ALL_SLOW, "under/test_two.py": ALL_LONG, "conftest.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert whole(tmp_path) == {"slow"}
    assert whole(tmp_path / "conftest.py") == set()
    (tmp_path / "empty").mkdir()
    assert whole(tmp_path / "empty") == set()


@pytest.mark.slow
def test_a_file_whose_tests_are_all_left_out_is_not_imported(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_ignore_collect")
    raising = "raise AssertionError('it is imported')\n"
    pytester.makepyfile(test_left_out=ALL_SLOW + raising, test_chosen=f"{ONE_SLOW}def test_other(): ...\n")
    pytester.makeini("[pytest]\nmarkers = slow\n")
    pytester.inline_run("-m", "not slow").assertoutcome(passed=1)
    assert pytester.inline_run().ret == pytest.ExitCode.INTERRUPTED
