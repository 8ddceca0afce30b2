import csv
import datetime as dt
import io
import json

import pytest

from sluice.cli.output.format import Format, plain, table, write

COLUMNS = ["period", "status", "count", "avg"]
ROWS = [
    [dt.datetime(2015, 5, 17, 10, 5, tzinfo=dt.UTC), "200", 12, 1.5],
    [dt.datetime(2015, 5, 17, 10, 6, tzinfo=dt.UTC), "404", 3.0, None],
]


def printed(style: Format, rows: list = ROWS) -> str:
    out = io.StringIO()
    write(COLUMNS, rows, style, out)
    return out.getvalue()


def test_a_table_aligns_numbers_to_the_right_and_shows_what_is_missing() -> None:
    assert printed(Format.TABLE).splitlines() == [
        "period                status  count  avg",
        "--------------------  ------  -----  ---",
        "2015-05-17T10:05:00Z  200        12  1.5",
        "2015-05-17T10:06:00Z  404         3    -",
    ]


def test_csv_is_read_back_as_it_was_written() -> None:
    rows = [["a", 'with "quotes", a comma\nand a newline', 1, None]]
    assert list(csv.reader(io.StringIO(printed(Format.CSV, rows)))) == [
        COLUMNS,
        ["a", 'with "quotes", a comma\nand a newline', "1", ""],
    ]


def test_json_is_a_list_of_objects_with_integers_as_integers() -> None:
    second = json.loads(printed(Format.JSON))[1]
    assert second == {"period": "2015-05-17T10:06:00Z", "status": "404", "count": 3, "avg": None}
    assert '"count": 3,' in printed(Format.JSON)


def test_no_rows_are_a_header_alone() -> None:
    assert printed(Format.CSV, []) == "period,status,count,avg\n"
    assert json.loads(printed(Format.JSON, [])) == []
    assert printed(Format.TABLE, []).splitlines()[0] == "period  status  count  avg"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.0, "3"),
        (-0.5, "-0.5"),
        (float(2**60), "1.152921504606847e+18"),
        (float("inf"), "inf"),
        (True, "True"),
    ],
)
def test_integral_doubles_lose_their_point_while_they_are_exact(value: object, expected: str) -> None:
    assert str(plain(value)) == expected


def test_a_log_line_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in table(["line"], [["\x1b[2Jgone"]])
    assert "\\x1b[2Jgone" in table(["line"], [["\x1b[2Jgone"]])


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_log_line_cannot_become_a_formula(text: str) -> None:
    (_, row) = csv.reader(io.StringIO(printed(Format.CSV, [[text, "a=b", -1.5, None]]), newline=""))
    assert row == ["'" + text, "a=b", "-1.5", ""]
    assert json.loads(printed(Format.JSON, [[text, "", 1, None]]))[0]["period"] == text
