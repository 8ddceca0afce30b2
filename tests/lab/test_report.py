"""What `sluice lab transmission` and `placement` print of the page that they made."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sluice_lab.commands.grouping import app
from sluice_lab.commands.report import report, tables
from sluice_lab.tables import TextBar, TextTable
from sluice_lab.transmission import page as transmission

PAGE = f"""# Page
Prose.

## No table here
Only prose that ends with a colon:

- a point

## First
### Deep
What it is,
in two lines:

{TextTable(["a", "b", ""], [["x", None, "yes"], ["y", 2, ""]]).markdown()}

More prose.

{TextTable(["c"], [["z"]]).markdown()}
"""


def test_tables_come_with_what_leads_to_them() -> None:
    assert list(tables(PAGE)) == [
        "# Page",
        "## First",
        "### Deep",
        "What it is, in two lines:",
        [["a", "b", ""], ["x", "", "yes"], ["y", "2", ""]],
        [["c"], ["z"]],
    ]


def test_bars_that_fail_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    report(page, [TextBar("even", "0.1", holds=True)])
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-3:] == ["c", "-", "z"]
    assert shown.err == f"wrote {page}\n"
    with pytest.raises(typer.Exit) as ended:
        report(page, [TextBar("even", "0.1", holds=True), TextBar("quick", "9 s", holds=False)])
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"wrote {page}\nfails: quick: 9 s\n"


@pytest.mark.slow
def test_the_command_prints_every_table_and_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "transmission.md"
    text = transmission.render(transmission.load())
    monkeypatch.setattr(transmission, "write", lambda: page)
    page.write_text(text)
    found = CliRunner().invoke(app, ["transmission", "--page"])
    assert found.exit_code == 0, found.output
    written = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| --")]
    printed = [" ".join(line.split()) for line in found.stdout.splitlines()]
    for line in written:
        assert " ".join(line.replace("|", " ").split()) in printed
