import pyarrow as pa
import pytest

from sluice.engine.access_log import FIELDS, fields, named


def parsed(line: bytes) -> dict[str, object]:
    return {name: column[0].as_py() for name, column in fields(pa.array([line], pa.binary())).items()}


def test_a_combined_line() -> None:
    line = rb'83.1.9.2 - j [17/May/2015:10:05:03 +0000] "GET /a?b=c d HTTP/1.1" 200 203 "http://r/" "M \"x\""'
    assert parsed(line) == {
        "client": b"83.1.9.2",
        "ident": None,
        "user_name": b"j",
        "method": b"GET",
        "path": b"/a?b=c d",
        "protocol": b"HTTP/1.1",
        "status": 200,
        "bytes": 203,
        "referer": b"http://r/",
        "agent": rb"M \"x\"",
    }


def test_a_common_line_without_a_size() -> None:
    found = parsed(b'h - - [17/May/2015:10:05:03 +0000] "HEAD / HTTP/1.0" 304 -')
    assert (found["status"], found["bytes"], found["referer"]) == (304, None, None)


@pytest.mark.parametrize(
    ("size", "number"),
    [("7", 7), ("1e6", None), ("3.5", None), ("-5", None), ("1" * 18, int("1" * 18)), ("1" * 19, None)],
)
def test_a_size_is_taken_whole(size: str, number: int | None) -> None:
    """A part of it would be another number."""
    text = f'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 {size} "r" "a"'
    assert [named(pa.array([text]))[name][0].as_py() for name in ("bytes", "referer")] == [size, "r"]
    assert (parsed(text.encode())["bytes"], parsed(text.encode())["agent"]) == (number, b"a")


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    assert parsed(b'h - - [x] "GET /\xff\x00 HTTP/1.1" 200 1 "-" "-"')["path"] == b"/\xff\x00"


def test_anything_else_has_no_fields() -> None:
    for line in (b"", b"x", b'h - - [x] "GET / HTTP/1.1" 20000 1', b"\n" * 100):
        assert parsed(line) == dict.fromkeys(FIELDS.names)


def test_types_are_those_of_the_table() -> None:
    assert {name: column.type for name, column in fields(pa.array([b"x"], pa.binary())).items()} == {
        field.name: field.type for field in FIELDS
    }
