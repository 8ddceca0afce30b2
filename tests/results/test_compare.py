import json

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.rowkey import RowKey
from sluice.results.compare import NAMED, OFFLINE_RESULTS, ONLINE_RESULTS, SHOWN, compare

MINUTE = 1431857100000  # 2015-05-17T10:05:00Z


def key(metric: str, path: str = "/a_b") -> bytes:
    return RowKey(7, 2, (("path", path),), metric, MINUTE).encode()


def online(*results: tuple[bytes, str], error: float | None = None) -> pa.Table:
    rows, texts = zip(*results, strict=True) if results else ((), ())
    columns = [pa.array(rows, pa.binary()), pa.array(texts, pa.string()), pa.array([error] * len(rows))]
    return pa.table(columns, ["row", "text", "error"]).cast(ONLINE_RESULTS)


def offline(
    *results: tuple[bytes, str, float], text: str | None = None, error: float | None = None
) -> pa.Table:
    rows, metrics, values = zip(*results, strict=True) if results else ((), (), ())
    columns = [pa.array(rows, pa.binary()), pa.array(metrics, pa.string()), pa.array(values, pa.float64())]
    columns += [pa.array([text] * len(rows), pa.string()), pa.array([error] * len(rows))]
    return pa.table(columns, ["row", "metric", "value", "text", "error"]).cast(OFFLINE_RESULTS)


@pytest.mark.parametrize(
    ("metric", "text", "value", "agrees"),
    [
        ("count", "72", 72.0, True),
        ("count", "72", 73.0, False),
        ("sum", "inf", 73.0, False),
        ("min", "-0.5", -0.5, True),
        ("max", "10.25", 10.250000000001, False),
        ("max", "90.34685826301575", 90.34685826301575, True),  # decimals are read to the last bit
        ("sum", "9007199254740993", float(2**53), True),  # as close as Hive's double can be
        ("sum", "4000000000000001", 4000000000000000.0, False),  # integers are compared exactly
        ("sum", "0.30000000000000004", 0.3, False),  # exact in any order
        ("sum", "0.3", 0.3, True),
        ("stddev", "0.30000000000000004", 0.3, True),  # added in another order
        ("stddev", "0.3000001", 0.3, False),
        ("avg", "297.0", 297.0, True),
        ("avg", "297.00000000000006", 297.0, False),
        ("avg", "0.0", 0.0, True),
        ("count", "0", 0.0, True),
        ("count", "many", 3.0, False),
        ("count", "nan", 3.0, False),
    ],
)
def test_metrics_are_compared_by_their_kind(metric: str, text: str, value: float, agrees: bool) -> None:
    found = compare("t (7v2)", online((key(metric), text)), offline((key(metric), metric, value)))
    assert found.compared == 1
    assert (found.differing == 0) == agrees


def test_a_difference_names_task_period_dimensions_metric_and_both_values() -> None:
    found = compare("hits (7v2)", online((key("count"), "3")), offline((key("count"), "count", 2.0)))
    assert str(found.differences[0]) == (
        "hits (7v2), 2015-05-17T10:05:00Z, path='/a_b', count: online 3, offline 2"
    )


def test_a_result_of_one_layer_alone_differs() -> None:
    found = compare(
        "t (7v2)",
        online((key("count", "/only-online"), "3")),
        offline((key("count", "/only-offline"), "count", 2.0)),
    )
    assert found.differing == 2
    values = {d.dimensions["path"]: (d.online, d.offline) for d in found.differences}
    assert values == {"/only-online": ("3", None), "/only-offline": (None, "2")}


def test_rows_that_are_no_results_are_differences_too() -> None:
    found = compare("t (7v2)", online((b"7v2_oops_1431857100000", "3")), offline())
    assert found.differing == 1
    assert found.differences[0].dimensions == {"row": "7v2_oops_1431857100000"} or found.differences[0].metric


def test_only_the_first_differences_are_named_and_all_are_counted() -> None:
    rows = [key("count", f"/{n}") for n in range(1000)]
    found = compare(
        "t (7v2)",
        online(*((row, "1") for row in rows)),
        offline(*((row, "count", 2.0) for row in rows)),
    )
    assert found.differing == 1000
    assert len(found.differences) == NAMED


def test_nothing_agrees_with_nothing() -> None:
    found = compare("t (7v2)", online(), offline())
    assert (found.compared, found.differing) == (0, 0)


def test_what_is_no_number_is_none_in_the_columns_of_numbers() -> None:
    found = compare("t (7v2)", online((key("count"), "many")), offline((key("count"), "count", 2.0)))
    frame = found.frame
    assert frame["online"].dtype == frame["offline"].dtype == frame["difference"].dtype == np.float64


def test_an_infinite_result_is_as_far_away_as_can_be() -> None:
    """It is not NaN, which would mean that a layer has no result."""
    row = key("sum")
    found = compare("bytes", online((row, "inf")), offline((row, "sum", 73.0)))
    assert found.frame["difference"].tolist() == [np.inf]


def test_a_difference_of_sketched_values_names_their_errors() -> None:
    row = key("p95")
    found = compare("t (7v2)", online((row, "10.0"), error=1.5), offline((row, "p95", 20.0), error=2.0))
    assert (found.differences[0].online, found.differences[0].offline) == ("10.0 ± 1.5", "20 ± 2.0")
    assert compare("t (7v2)", online((row, "10.0"), error=1.5), offline((row, "p95", 13.0), error=2.0)).frame[
        ["difference", "tolerance", "differs"]
    ].values.tolist() == [[3.0, pytest.approx(3.5), False]]


def test_a_difference_of_lists_shows_their_beginnings() -> None:
    row = key("top2")
    ours, theirs = json.dumps([["/" + "x" * 1000, 9]]), json.dumps([["/b", 9]])
    found = compare("t (7v2)", online((row, ours)), offline((row, "top2", 9.0), text=theirs))
    assert found.differing == 1
    assert found.differences[0].offline == theirs
    assert found.differences[0].online == ours[:SHOWN] + "..."
