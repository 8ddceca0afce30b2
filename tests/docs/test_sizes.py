"""Functions have at most 50 lines and classes 200; kernels, which are loops, may have more."""

from __future__ import annotations

import ast

import pytest

from sluice.runtime.settings import ROOT

FUNCTION, CLASS = 50, 200
FOLDERS = ("dags", "include", "jobs", "plugins", "tests")
KERNELS = ("kernels.py", "kernels")


def too_long(text: str) -> list[str]:
    """The functions and classes of a module that are too long, with their number of lines."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            if size > (CLASS if isinstance(node, ast.ClassDef) else FUNCTION):
                found.append(f"{node.name}: {size} lines")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_and_classes_are_short(folder: str) -> None:
    modules = [path for path in (ROOT / folder).rglob("*.py") if not set(KERNELS) & set(path.parts)]
    assert modules
    found = {str(path.relative_to(ROOT)): too_long(path.read_text()) for path in modules}
    assert {path: long for path, long in found.items() if long} == {}


def test_a_long_one_is_found() -> None:
    assert too_long("def f():\n" + "    x = 1\n" * FUNCTION) == [f"f: {FUNCTION + 1} lines"]
    assert too_long("def f():\n" + "    x = 1\n" * (FUNCTION - 1)) == []
