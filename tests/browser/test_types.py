"""The console's scripts fit together: a type checker reads them, with uPlot's own types."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from sluice.stack.jars import require
from sluice_lab.browser.tools import modules, node

pytestmark = pytest.mark.slow

CONFIGURATION = Path(__file__).with_name("tsconfig.json")


def checked(tmp_path: Path, scripts: list[Path]) -> str:
    """What the type checker says of the scripts; nothing if they are right."""
    (jar,) = require("console").glob("uplot-*.jar")
    version = jar.stem.removeprefix("uplot-")
    with zipfile.ZipFile(jar) as packed:
        types = packed.read(f"META-INF/resources/webjars/uplot/{version}/dist/uPlot.d.ts")
    (tmp_path / "uPlot.d.ts").write_bytes(types)
    project = json.loads(CONFIGURATION.read_text())
    project["files"] = ["uPlot.d.ts", *map(str, scripts)]
    (tmp_path / "tsconfig.json").write_text(json.dumps(project))
    return node(modules() / "typescript" / "bin" / "tsc", "--pretty", "false", "-p", tmp_path).stdout


def test_the_scripts_have_no_error_of_type(tmp_path: Path) -> None:
    from sluice_airflow.console.assets import STATIC

    assert checked(tmp_path, sorted(STATIC.glob("*.js"))) == ""


def test_the_checker_finds_a_mistake(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.js"
    wrong.write_text('/** @param {number} x */\nexport function f(x) {}\nf("text");\n')
    assert "error TS2345" in checked(tmp_path, [wrong])
