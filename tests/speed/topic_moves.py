"""How long a topic that moves between two drivers is not counted, while lines come to it all the time.

``python -m tests.speed.topic_moves`` measures it with the drivers of these tests; ``--quick``: fewer moves.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sluice_lab.bench import stack
from sluice_lab.bench.outcome import Bar, Outcome, Table
from sluice_lab.waiting import until
from tests.speed.speed_drivers import FIRST, PATIENCE, SECOND, DriversTest

NAME = "topic_moves"
MOVES, QUICK_MOVES = 40, 4
MOST_SECONDS = 10.0

WHAT = """\
Two drivers on instance `{instance}` and two topics, to each of which lines come four times a second. One
topic moves back and forth {moves} times. *Pause*: from the last commit of the old driver to the first one of
the new. *Between commits*: the same where no driver changes. At the end every result is compared with an
exact count."""


def run(quick: bool = False) -> Outcome:
    moves = QUICK_MOVES if quick else MOVES
    with stack.running() as settings, TemporaryDirectory() as folder:
        made = DriversTest(settings, Path(folder))
        try:
            _move(made, moves)
            pauses, others = made.gaps(made.topics[0].topic)
        finally:
            made.close()
        instance = settings.instance
    if len(pauses) < moves:
        raise RuntimeError(f"{moves} moves, and {len(pauses)} changes of the writer")
    rows = [
        [name, len(found), *(float(np.percentile(found, share)) for share in (50, 90, 99)), max(found)]
        for name, found in (("pause", pauses), ("between commits", others))
    ]
    table = Table("Seconds", ["", "times", "p50", "p90", "p99", "most"], rows)
    bar = Bar("pause of a topic that moves, p99", float(np.percentile(pauses, 99)), MOST_SECONDS, "most", "s")
    return Outcome(NAME, WHAT.format(instance=instance, moves=moves), [bar], [table], quick=quick)


def _move(made: DriversTest, moves: int) -> None:
    moving, other = (test.topic for test in made.topics)
    made.table.move({moving: FIRST, other: SECOND}, "ann")
    with made.lines():
        for driver in (FIRST, SECOND):
            made.start(driver)
        until(lambda: made.owner(other) == SECOND, PATIENCE)
        made.wait(moving, FIRST)
        for number in range(moves):
            made.move(moving, (SECOND, FIRST)[number % 2])
            stack.say(f"{NAME}: move {number + 1} of {moves}")
    made.check()


if __name__ == "__main__":
    sys.exit(run(quick="--quick" in sys.argv[1:]).report())
