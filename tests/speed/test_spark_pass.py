"""Both stages in Spark: slices become tuples, shuffled by worker into partial aggregates."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.runtime.jvm import QUICK, SPARK_OPTIONS
from sluice.runtime.sections import Limits
from sluice.speed import spark_pass
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import PartitionPass
from sluice.speed.projection_pass import WRITTEN_ARROW, written
from sluice.speed.projector import on_executors
from sluice.state.blocks import BlockId
from sluice.state.dealing import Dealing
from tests.bring_up import instance_settings
from tests.engine.samples import BYTES, active, line, spec
from tests.messages import block, decoded, unsigned
from tests.speed.routed.stages import Echo, Merged, by_version, one_stage, routes_of, two_stages

pytestmark = pytest.mark.slow  # Spark starts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}
TASKS = active(
    spec(name="hits", dimensions=[CLIENT]),
    spec(name="sizes", measure=BYTES, metrics=["sum", "unique", "p50"]),
)
PLAN = EnginePlan.of(TASKS, Limits())
SLICES = [[line(client=f"c{n % 37}", size=str(n)) for n in range(k, 3_000, 3)] for k in range(3)]
WORKERS = 5


@dataclass(frozen=True)
class Held:
    """The lines of a batch, held in memory; each list of batches is a partition of the topic."""

    partitions: list[list[pa.RecordBatch]]

    def parts(self, most: int | None = None) -> list[list[pa.RecordBatch]]:
        if most is None:
            return self.partitions
        dealt = [self.partitions[n::most] for n in range(min(most, len(self.partitions)))]
        return [own[0] if len(own) == 1 else [batch for each in own for batch in each] for own in dealt]


LINES = Held([[unsigned(own, number)] for number, own in enumerate(SLICES)])


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two slots that needs no other daemon."""
    from sluice.spark.session import repeating, session

    before = dict(os.environ)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK)
    home = tmp_path_factory.mktemp("home")
    settings = instance_settings().model_copy(update={"home": home})
    config = {"spark.master": repeating("local[2]"), "spark.sql.catalogImplementation": "in-memory"}
    config["spark.driver.extraJavaOptions"] = " ".join(SPARK_OPTIONS)
    made = session(settings, "two stages", config=config)
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)


def run_pass(spark: SparkSession, lines: Held, work: PartitionPass, dealt: bool) -> Merged:
    """The batch in Spark, with a last stage that lets the partial aggregates through."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_pass, "Gathered", Merged)
        found = spark_pass.OnExecutors(spark.sparkContext, lines)(work, Dealing(3), Echo(), dealt)
    assert isinstance(found, Merged)
    return found


def rows(found: Merged) -> list[str]:
    return sorted(map(str, found.partials.drop_columns(["kll"]).to_pylist()))


@pytest.mark.parametrize("strategy", ["key", "shuffle", "kg2", "planned"])
def test_spark_counts_like_the_stages_and_sends_each_tuple_to_its_worker(
    spark: SparkSession, strategy: str
) -> None:
    routes = routes_of(by_version(TASKS), strategy, workers=WORKERS, sources=len(SLICES))
    work = PartitionPass(PLAN, "logs", ByteLedger().to_table(), routes)
    found = run_pass(spark, LINES, work, False)
    alone = two_stages(PLAN, routes, SLICES)
    assert rows(found) == rows(alone) == rows(one_stage(PLAN, SLICES))
    assert found.counts == alone.counts
    assert sorted(map(str, found.holders.to_pylist())) == sorted(map(str, alone.holders.to_pylist()))
    by_worker = {row["worker"] for row in found.spent.to_pylist() if row["task_id"] == 1} - {-1}
    assert by_worker == set(range(WORKERS))


def test_lines_that_are_dealt_out_again_are_routed_too(spark: SparkSession) -> None:
    routes = routes_of(by_version(TASKS), "planned", workers=WORKERS, sources=len(SLICES))
    work = PartitionPass(PLAN, "logs", ByteLedger().to_table(), routes)
    assert rows(run_pass(spark, LINES, work, True)) == rows(one_stage(PLAN, SLICES))


def test_lines_that_are_dealt_out_go_to_the_same_workers_if_a_stage_repeats(
    spark: SparkSession,
) -> None:
    """A shuffle yields lines in any order, on which a strategy that takes turns depends."""
    size = {"name": "size", "extract": {"delimiter": " ", "index": 9}}
    tasks = active(spec(name="each", dimensions=[size]))  # a line per key: holders tell where lines went
    routes = routes_of(by_version(tasks), "shuffle", workers=WORKERS, sources=len(SLICES))
    work = PartitionPass(EnginePlan.of(tasks, Limits()), "logs", ByteLedger().to_table(), routes)
    pieces = [[batch.slice(at, 100) for at in range(0, len(batch), 100)] for (batch,) in LINES.partitions]
    last_first = Held([own[::-1] for own in pieces[::-1]])
    first, again = (run_pass(spark, each, work, True) for each in (Held(pieces), last_first))
    held = [sorted(map(str, found.holders.to_pylist())) for found in (first, again)]
    assert len(held[0]) == sum(map(len, SLICES))
    assert held[0] == held[1]


def test_copies_of_a_line_meet_however_they_were_cut_and_the_first_in_kafka_counts(
    spark: SparkSession,
) -> None:
    own = [line(client=f"c{n}") for n in range(40)] + [b"no time"]
    begins = [0, *accumulate(len(each) + 1 for each in own)]

    def cut(partition: int, size: int) -> list[pa.RecordBatch]:
        cuts = range(0, len(own), size)
        made = [block(n, "a.log", begins[at], own[at : at + size]) for n, at in enumerate(cuts)]
        return [decoded(partition, made)]

    work = PartitionPass(PLAN, "logs", ByteLedger().to_table())
    found = run_pass(spark, Held([cut(2, 5), cut(1, 7), cut(0, 1)]), work, True)
    size = 3 * sum(map(len, own))
    assert found.counts == {"lines": 123, "bytes": size, "doubled": 82, "counted": 40, "dead": 1}
    (letter,) = found.dead_letters.to_pylist()
    assert (letter["partition"], letter["offset"], letter["line_in_record"]) == (0, 40, 0)


def test_without_routes_there_are_no_workers(spark: SparkSession) -> None:
    work = PartitionPass(PLAN, "logs", ByteLedger().to_table())
    found = run_pass(spark, LINES, work, False)
    assert rows(found) == rows(one_stage(PLAN, SLICES))
    assert found.holders.num_rows == 0


class Torn:
    """A part of a batch that Kafka does not give."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        raise ConnectionError("no broker answers")


def test_a_batch_that_fails_says_what_its_task_raised(spark: SparkSession) -> None:
    work = PartitionPass(PLAN, "logs", ByteLedger().to_table())
    with pytest.raises(spark_pass.JobFailed, match=r"^ConnectionError: no broker answers$"):
        run_pass(spark, Held([LINES.partitions[0], Torn()]), work, False)  # type: ignore[list-item]


class Dying:
    """Projects nothing: says which blocks each portion has, and dies once on the way."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        if rows and self.flag.exists():
            self.flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        found = [
            {"written": None, "task_id": row["portion"], "version": 1, "message": str(row["bucket"])}
            for row in rows
        ]
        yield pa.RecordBatch.from_pylist([{"written": len(rows)}, *found], WRITTEN_ARROW)


def test_portions_go_to_the_executors_and_a_worker_that_dies_is_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    flag = tmp_path / "die"
    flag.touch()
    portions = [[BlockId(1, 1, 0, 8, number)] for number in range(7)]
    work: Any = Dying(flag)
    found, failures = written(on_executors(spark, 3, work, portions))
    assert found == 7
    assert failures == {(number, 1): str(number) for number in range(7)}
    assert not flag.exists()
