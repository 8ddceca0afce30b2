import math
from typing import Any

import pandas as pd

from sluice.quality.publish import final_cells


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    empty = {"online_text": None, "offline_text": None, "offline_error": math.nan}
    return pd.DataFrame([{**empty, "row": str(n).encode(), **row} for n, row in enumerate(rows)])


def finals(*rows: dict[str, Any]) -> list[dict[bytes, bytes]]:
    return [dict(cells) for _, cells in final_cells(frame(*rows))]


def test_the_offline_value_is_final_and_equal_numbers_keep_all_their_digits() -> None:
    assert finals(
        {"metric": "sum", "online": 2.0**53, "offline": 2.0**53, "online_text": "9007199254740993"},
        {
            "metric": "avg",
            "online": 0.30000000000000004,
            "offline": 0.3,
            "online_text": "0.30000000000000004",
        },
    ) == [{b"r:f": b"9007199254740993"}, {b"r:f": b"0.3"}]


def test_a_sketched_value_is_published_with_its_error_or_with_none() -> None:
    assert finals(
        {"metric": "p95", "online": 10.0, "offline": 10.5, "online_text": "10.0", "offline_error": 0.75},
        {"metric": "p95", "online": 10.0, "offline": 10.0, "online_text": "10.0"},
    ) == [{b"r:f": b"10.5", b"r:fe": b"0.75"}, {b"r:f": b"10.0", b"r:fe": b"0.0"}]


def test_a_list_is_published_as_the_batch_layer_has_it() -> None:
    ours, theirs = '[["/a", 9]]', '[["/a", 9], ["/b", 1]]'
    (cells,) = finals(
        {
            "metric": "top2",
            "online": 9.0,
            "offline": 9.0,
            "online_text": ours,
            "offline_text": theirs,
            "offline_error": 1.0,
        }
    )
    assert cells == {b"r:f": theirs.encode(), b"r:fe": b"1.0"}
