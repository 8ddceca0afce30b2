"""A session starts when it is first needed, once for all threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sluice.spark.on_demand import OnDemand


class Session:
    """A double of Spark's; it counts how often it was stopped."""

    stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_nothing_starts_and_nothing_stops_before_it_is_needed() -> None:
    spark = OnDemand(pytest.fail)
    assert spark.started is None
    spark.stop()


def test_threads_that_need_it_at_once_get_the_same_one() -> None:
    made, others_wait = list[Session](), threading.Barrier(3)

    def start() -> Any:
        made.append(Session())
        return made[-1]

    spark = OnDemand(start)

    def need(_: int) -> Any:
        others_wait.wait()
        return spark.session()

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(need, range(3)))
    assert [*map(id, found), id(spark.started)] == [id(made[0])] * 4
    assert len(made) == 1
    spark.stop()
    assert made[0].stops == 1


def test_a_start_that_failed_is_tried_again() -> None:
    session: Any = Session()
    answers = iter([OSError("no java"), session])

    def start() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    spark = OnDemand(start)
    with pytest.raises(OSError, match="no java"):
        spark.session()
    assert spark.started is None
    assert spark.session() is session
