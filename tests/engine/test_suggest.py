"""A suggestion takes the text that somebody pointed at, from that line, and says what it takes of others."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.extract import BatchLines
from sluice.engine.places import MOST_CHARACTERS, pieces, places
from sluice.engine.suggest import NothingThere, Suggestion, suggest
from sluice.tasks import TopicSpec
from sluice.tasks.document import parse_documents
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TimeSpec
from tests.engine.samples import line

AT = TimeSpec(extract=Extract(field="at"), format="iso8601")
LOGS = TopicSpec()
SHOP = TopicSpec(name="shop", format="json", time=AT)
PROXY = TopicSpec(name="proxy", format="delimited", delimiter=";", columns=("at", "client", "rest"), time=AT)
TOPICS = [LOGS, SHOP, PROXY]

texts = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
paths = st.lists(st.sampled_from(["", "blog", "a-b", "x.html", "ü", "10"]), max_size=3).map("/".join)
lines_of = {
    "combined": st.builds(
        lambda path, status, size, agent: (
            line(path=f"/{path}?k=v&u=7", status=status, size=size) + f" {agent}".encode()
        ),
        paths,
        st.sampled_from(["200", "404"]),
        st.sampled_from(["-", "0", "512"]),
        texts,
    ),
    "json": st.dictionaries(texts, values, max_size=4).map(
        lambda made: json.dumps(made, ensure_ascii=len(made) % 2 == 0).encode()
    ),
    "delimited": st.lists(texts, max_size=5).map(lambda made: ";".join(made).encode()),
}


def cut(topic: TopicSpec, lines: list[bytes], extract: Extract) -> list[str | None]:
    found = BatchLines(pa.array(lines, pa.binary()), {}, topic).values(extract)
    distinct = [*found.distinct.to_pylist(), None]
    return [distinct[code] for code in found.codes.tolist()]


def at(lines: list[bytes], token: str, topic: TopicSpec = LOGS) -> list[Suggestion]:
    begin = lines[0].decode().index(token)
    return suggest(lines, 0, begin, begin + len(token), topic)


@pytest.mark.slow
@given(st.data())
def test_what_is_suggested_is_what_the_engine_takes(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(TOPICS))
    own, any_text = lines_of[topic.format], texts.map(str.encode) | st.binary(max_size=20)
    lines = data.draw(st.lists(own | any_text, min_size=1, max_size=4))
    number = data.draw(st.integers(0, len(lines) - 1))
    text = lines[number].decode(errors="replace")
    found = pieces(text, topic)
    if not found:
        return
    begin, end = data.draw(st.sampled_from(found))
    for each in suggest(lines, number, begin, end, topic):
        taken = cut(topic, lines, each.extract)
        assert taken[number] == each.value
        assert each.begin <= begin
        assert end <= each.end
        if topic.format != "json":
            assert each.value == text[each.begin : each.end]
        assert each.found == sum(value is not None for value in taken)
        assert each.alike <= each.found
        assert all(taken.count(value) == count for value, count in each.examples)
        (spec,) = parse_documents(
            [
                {
                    "name": "made",
                    "topic": topic.name,
                    "period": "1m",
                    "metrics": ["count"],
                    "dimensions": [
                        {"name": each.name, "extract": each.extract.model_dump(exclude_none=True)}
                    ],
                }
            ]
        )
        assert spec.dimensions[0].extract == each.extract


@pytest.mark.slow
@given(st.data())
def test_each_piece_of_a_log_line_has_a_suggestion_that_takes_just_it(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from([LOGS, PROXY]))
    one = data.draw(lines_of[topic.format])
    text = one.decode()
    for begin, end in pieces(text, topic):
        found = suggest([one], 0, begin, end, topic)
        assert found
        assert (found[0].begin, found[0].end) == (begin, end)


@given(st.sampled_from(TOPICS), texts | st.sampled_from(["{", '{"a":', "[[", '"']), st.data())
def test_pieces_lie_beside_each_other_in_the_line(topic: TopicSpec, text: str, data: st.DataObject) -> None:
    text = data.draw(st.just(text) | lines_of[topic.format].map(bytes.decode))
    edges = [edge for piece in pieces(text, topic) for edge in piece]
    assert edges == sorted(edges)
    assert all(begin < end for begin, end in pieces(text, topic))
    assert all(0 <= place.begin < place.end <= len(text) or topic is SHOP for place in places(text, topic))


def test_nobody_can_point_at_an_empty_text() -> None:
    assert pieces('{"a": "", "b": "x"}', SHOP) == [(16, 17)]


def test_a_named_field_is_taken_by_its_name_alone() -> None:
    (only,) = at([line(status="404"), line()], "404")
    assert only.extract == Extract(field="status")
    assert (only.name, only.value, only.found, only.examples) == (
        "status",
        "404",
        2,
        (("404", 1), ("200", 1)),
    )


@pytest.mark.parametrize(
    ("topic", "one"),
    [
        (LOGS, b'h - john doe [17/May/2015:10:05:03 +0000] "GET /two words HTTP/1.1" 404 5 "-" "x"'),
        (LOGS, rb'h - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 226 "-" "-"'),
        (SHOP, b'{"at": "2015-05-17T10:05:03Z", "user": "a b, c", "status": 404}'),
        (PROXY, b"2015-05-17 10:05:03;a b;rest of it, all"),
    ],
)
def test_where_the_format_names_a_field_no_line_is_cut_at_anything_else(topic: TopicSpec, one: bytes) -> None:
    """A word between blanks is another word in the next line."""
    for begin, end in pieces(one.decode(), topic):
        inside = [each for each in places(one.decode(), topic) if each.begin <= begin and end <= each.end]
        found = suggest([one], 0, begin, end, topic)
        assert found
        if inside:
            assert all(each.extract.field in {place.field for place in inside} for each in found)


def test_a_line_that_is_not_of_the_format_is_still_cut() -> None:
    (best, *_) = suggest([b"not an access log"], 0, 4, 6, LOGS)
    assert best.extract == Extract(delimiter=" ", index=1)


def test_a_part_of_a_field_comes_with_the_whole_field_as_the_wider_choice() -> None:
    found = at([line(path="/blog/a?x=1"), line(path="/shop"), line(path="/")], "blog")
    assert found[0].extract == Extract(field="path", regex="^/([^/?#]+)")
    assert (found[0].found, found[0].name) == (2, "path_part")
    assert (found[-1].extract, found[-1].value) == (Extract(field="path"), "/blog/a?x=1")


def test_characters_are_counted_only_where_nothing_else_takes_the_stretch() -> None:
    found = at([line(path="/blog/a?x=1"), line(path="/shop")], "blog")
    assert not [each for each in found if (each.extract.regex or "").startswith("(?s)^.{")]
    (middle,) = suggest([b"abcdef"], 0, 2, 4, LOGS)[:1]
    assert (middle.extract.regex, middle.value) == ("(?s)^.{2}(.{2})", "cd")


def test_a_key_beside_the_value_makes_the_pattern() -> None:
    found = at([line(path="/a?page=1&user=79"), line(path="/b?user=8")], "79")
    assert found[0].name == "user"
    assert found[0].examples == (("79", 1), ("8", 1))


def test_the_fields_of_json_are_found_under_any_keys() -> None:
    document = {"request": {"path": "/a", "a.b": "x"}, "sizes": [1, 25], "quote": 'say "hi"', "none": None}
    one = json.dumps(document).encode()
    assert at([one], "/a", SHOP)[0].extract == Extract(field="request.path")
    assert at([one], "x", SHOP)[0].extract == Extract(field="/request/a.b")
    assert at([one], "25", SHOP)[0].extract == Extract(field="sizes.1")
    assert {place.field for place in places(one.decode(), SHOP)} == {
        "request.path",
        "/request/a.b",
        "sizes.0",
        "sizes.1",
        "quote",
    }


def test_the_extraction_that_fits_more_neighbours_comes_first() -> None:
    """The line's last field moves; the word before it does not."""
    lines = [b"a b level=warn", *(b"a b c level=info" for _ in range(9))]
    found = suggest(lines, 0, 10, 14, PROXY.model_copy(update={"columns": ("at",)}))
    assert (found[0].value, found[0].alike) == ("warn", 10)


@pytest.mark.parametrize(
    ("number", "begin", "end"), [(1, 0, 1), (-1, 0, 1), (0, 3, 3), (0, -1, 2), (0, 0, 9)]
)
def test_a_stretch_that_the_line_does_not_have_is_refused(number: int, begin: int, end: int) -> None:
    with pytest.raises(NothingThere):
        suggest([b"abc"], number, begin, end, LOGS)


def test_named_fields_of_an_endless_line_are_not_looked_for() -> None:
    assert places(line(path="/" + "a" * MOST_CHARACTERS).decode(), LOGS) == []
