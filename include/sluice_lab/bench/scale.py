"""How far one driver and one inventory go: many partitions, files and front-ends."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from sluice.collection import agent, deploy_plan
from sluice.engine.wire import COUNTS, DAYS, FOUND, SEEN, rows_of
from sluice.runtime.settings import Settings
from sluice.speed.doubles import gather
from sluice.speed.ledger import INTERVALS, ByteLedger
from sluice.speed.partition_pass import Gathered
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "scale"
FRONT_ENDS, COLLECTORS = 5_000, 10
PARTITIONS, FILES, STRETCH = 1_000, 1_000, 256 << 10
ROUNDS = 5
INVENTORY_LIMIT, DRIVER_LIMIT = 10.0, 1.0

WHAT = f"""\
*Inventory*: {FRONT_ENDS:,} front-ends and {COLLECTORS} collectors are read from YAML, checked, rendered and
compared with what is deployed: first nothing, then just this. *Driver*: what {PARTITIONS:,} partitions found
in a batch that has a stretch of each of {FILES:,} files for every partition is put together, held against the
ledger of the batches before, and made into the ledger's rows for PostgreSQL; CPU time of the driver, which
takes no other part in counting. The median of {ROUNDS} batches."""


def run(quick: bool = False) -> Outcome:
    inventory = inventories(FRONT_ENDS // 10 if quick else FRONT_ENDS)
    driver = batches(PARTITIONS // 10 if quick else PARTITIONS)
    bars = [
        Bar("inventory of 5,000 front-ends, the slower time", max(inventory), INVENTORY_LIMIT, "most", "s"),
        Bar(
            "driver's CPU a batch, 1,000 partitions x 1,000 files",
            statistics.median(map(sum, driver)),
            DRIVER_LIMIT,
            "most",
            "s",
        ),
    ]
    names = ("put together", "held against the ledger", "ledger's rows")
    rows: list[list[Cell]] = [
        ["inventory, nothing deployed", inventory[0]],
        ["inventory, all deployed", inventory[1]],
        *(
            [name, statistics.median(took)]
            for name, took in zip(names, zip(*driver, strict=True), strict=True)
        ),
    ]
    return Outcome(NAME, WHAT, bars, [Table("Seconds", ["step", "s"], rows)], quick=quick)


def inventories(front_ends: int) -> tuple[float, float]:
    """Seconds to plan an inventory of so many front-ends before and after it is deployed."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(instance=NAME, home=Path(scratch), port_base=20_000)
        path = Path(scratch) / "collection.yaml"
        path.write_text(inventory(front_ends))
        began = time.perf_counter()
        changes = deploy_plan.plan(settings, path)
        first = time.perf_counter() - began
        for change in changes:
            folder = agent.folder(settings, change.agent)
            folder.mkdir(parents=True)
            for name, text in (change.rendered.files if change.rendered else {}).items():
                (folder / name).write_text(text)
        began = time.perf_counter()
        again = deploy_plan.plan(settings, path)
        second = time.perf_counter() - began
    if {change.action for change in again} != {"unchanged"} or len(again) != front_ends + COLLECTORS:
        raise AssertionError("what was deployed is not what the inventory says")
    return first, second


def inventory(front_ends: int) -> str:
    """The text of an inventory."""
    edges = [
        f'  - {{host: web{n}, files: ["{{home}}/web{n}/access.%Y-%m-%d.log"], '
        f"collectors: [collector{n % COLLECTORS}, collector{(n + 1) % COLLECTORS}]}}\n"
        for n in range(front_ends)
    ]
    collectors = [f"  - name: collector{n}\n" for n in range(COLLECTORS)]
    return "".join(["topic: logs\nfront_ends:\n", *edges, "collectors:\n", *collectors])


def batches(partitions: int) -> list[tuple[float, float, float]]:
    """The driver's CPU seconds for each step of some batches."""
    ledger, recent, costs = ByteLedger(), list[tuple[str, str]](), []
    for number in range(ROUNDS):
        rows = pa.Table.from_batches([found_by(at, number, partitions) for at in range(partitions)], FOUND)
        times = [time.process_time()]
        found = Gathered.of(rows)
        times.append(time.process_time())
        _, added = gather(lambda *_, found=found: found, ledger, recent)
        times.append(time.process_time())
        ledger.update(added)
        if len(added.to_rows()) != FILES:
            raise AssertionError("the batch has another number of files")
        times.append(time.process_time())
        recent = added.files()
        costs.append((times[1] - times[0], times[2] - times[1], times[3] - times[2]))
    return costs


def found_by(partition: int, batch: int, partitions: int, number: int = FILES) -> pa.RecordBatch:
    """What one partition's pass found: a stretch of each of so many files."""
    begin = np.full(number, (batch * partitions + partition) * STRETCH, np.int64)
    hosts = [f"web{n}" for n in range(number)]
    files = [f"frontends/web{n}/access.2026-11-23.log" for n in range(number)]
    seen = pa.table([hosts, files, pa.array(begin), pa.array(begin + STRETCH)], schema=INTERVALS)
    counts = {"lines": [number], "bytes": [number * STRETCH], "doubled": [0], "dead": [0], "pass_us": [9]}
    day = {
        "day": pa.array([20_000]),
        "partition": pa.array([partition], pa.int32()),
        "lines": pa.array([number]),
        "last_offset": pa.array([batch]),
    }
    return rows_of([(SEEN, seen), (COUNTS, pa.table(counts)), (DAYS, pa.table(day))])
