"""The lines and the tasks that benches count; they are made up and always the same.

The lines are made once, under var/bench/lines. A line is the combined log with the fields that a front-end
likes to add, separated by spaces::

    10.0.3.17 - - [17/May/2015:10:05:03 +0000] "GET /articles/12/index.html HTTP/1.1" 200 5123
    shop curl de web3 hit mobile https 0 12 210 3 845 7 0.021

(one line). Clients and paths are Zipf-like; numbers are integers except for the last, and some are "-".
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.tasks import ActiveTask, TaskSpec
from sluice_lab.bench.outcome import FOLDER

START = datetime(2015, 5, 17, 10, tzinfo=UTC)
#: As many files as Kafka has partitions by default; Spark deals them out to its tasks.
FILES = 4
ROWS_A_GROUP = 65_536

METHODS = ('"GET', '"POST', '"HEAD', '"PUT')
PROTOCOLS = ('HTTP/1.1"', 'HTTP/2"', 'HTTP/1.0"')
STATUS = ("200", "304", "404", "301", "500", "206", "403", "503")
SITES = ("shop", "blog", "api", "static", "search", "login")
AGENTS = (
    "chrome",
    "firefox",
    "safari",
    "edge",
    "curl",
    "bot",
    "opera",
    "wget",
    "okhttp",
    "python",
    "java",
    "go",
)
COUNTRIES = ("de", "fr", "us", "gb", "it", "es", "pl", "nl", "at", "ch", "cz", "dk",
             "se", "no", "fi", "pt", "ie", "be", "jp", "in")  # fmt: skip
SERVERS = tuple(f"web{n}" for n in range(8))
CACHE = ("hit", "miss", "stale", "bypass")
DEVICES, SCHEMES = ("mobile", "desktop", "tablet"), ("https", "http")
CLIENTS, PATHS = 2_000, 1_500

#: Fields with few values, by their index in the line; below are those with many, and those that are numbers.
FEW = {
    "method": 5,
    "protocol": 7,
    "status": 8,
    "site": 10,
    "agent": 11,
    "country": 12,
    "server": 13,
    "cache": 14,
    "device": 15,
    "scheme": 16,
}
#: A period has at most this many series of fields with few values; each minute has more lines than that.
SERIES = 2_000
MANY = {"client": 0, "path": 6}
VALUES = {
    "method": METHODS, "protocol": PROTOCOLS, "status": STATUS, "site": SITES, "agent": AGENTS,
    "country": COUNTRIES, "server": SERVERS, "cache": CACHE, "device": DEVICES, "scheme": SCHEMES,
}  # fmt: skip
NUMBERS = {
    "bytes": 9,
    "retries": 17,
    "queue": 18,
    "first_byte": 19,
    "depth": 20,
    "request": 21,
    "age": 22,
    "time": 23,
}
FIELDS = {**FEW, **MANY}
PERIODS = ("60s", "5m", "10m", "1h")
METRICS = ("count", "sum", "avg", "min", "max", "missing")


def lines(size: int, seconds: int, seed: int = 1) -> pa.Array:
    """`size` lines (binary) in order of time, over `seconds` seconds from START."""
    rng = np.random.default_rng(seed)

    def skewed(values: Sequence[str], power: float = 2.0) -> pa.Array:
        return pa.array(values).take(pa.array((len(values) * rng.random(size) ** power).astype(np.int32)))

    def numbers(top: int, missing: float = 0.0) -> pa.Array:
        texts = pa.array((top * rng.random(size) ** 2).astype(np.int64)).cast(pa.string())
        return pc.if_else(pa.array(rng.random(size) < missing), "-", texts) if missing else texts

    clients = [f"10.0.{n // 250}.{n % 250}" for n in range(CLIENTS)]
    paths = [f"/articles/{n}/index.html" for n in range(PATHS)]
    times = (np.arange(size, dtype=np.int64) * seconds // size) + int(START.timestamp())
    stamps = pc.strftime(pa.array(times, pa.timestamp("s", "UTC")), "[%d/%b/%Y:%H:%M:%S +0000]")
    columns = [
        skewed(clients, 3), "-", "-", stamps, skewed(METHODS, 4), skewed(paths, 3), skewed(PROTOCOLS),
        skewed(STATUS, 4), numbers(60_000, 0.05), skewed(SITES), skewed(AGENTS), skewed(COUNTRIES),
        skewed(SERVERS, 1), skewed(CACHE),
        skewed(DEVICES), skewed(SCHEMES), numbers(4), numbers(100), numbers(900, 0.02), numbers(16),
        numbers(2_000), numbers(3_600, 0.3), pc.binary_join_element_wise("0", numbers(1000), "."),
    ]  # fmt: skip
    return pc.binary_join_element_wise(*columns, " ").cast(pa.binary())


def log(size: int, seconds: int, folder: Path = FOLDER / "lines") -> Path:
    """A folder of Parquet files with the columns of `logs` that tasks need, made on first use."""
    target = folder / f"{size}x{seconds}s"
    if (target / "_SUCCESS").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):  # one after the other: 10 M lines at once would take 6 GB
        own = lines(size // FILES + (number < size % FILES), seconds, seed=number)
        table = pa.table(
            {
                "kafka_partition": pa.array(np.full(len(own), number, np.int32)),
                "kafka_offset": pa.array(np.arange(len(own))),
                "line": own.cast(pa.string()),
            }
        )
        pq.write_table(
            table,
            target / f"part-{number}.parquet",
            compression="lz4",
            use_dictionary=False,
            row_group_size=ROWS_A_GROUP,
        )
    (target / "_SUCCESS").touch()
    return target


def _dimension_sets() -> list[tuple[str, ...]]:
    """Sets of up to four fields with few values and at most `SERIES` series.

    Among them are some with clients or paths.
    """
    sets = [
        chosen
        for n in (1, 2, 3, 4)
        for chosen in itertools.combinations(FEW, n)
        if math.prod(len(VALUES[name]) for name in chosen) <= SERIES
    ]
    random.Random(7).shuffle(sets)  # noqa: S311
    large = [(many, *few) for few in ((), ("scheme",), ("device",), ("protocol",)) for many in MANY]
    for n, chosen in enumerate(large):
        sets.insert(2 + 8 * n, chosen)
    return sets


def tasks(number: int, metrics: Sequence[str] = METRICS) -> list[TaskSpec]:
    """`number` different tasks: no two have the same dimension set or the same filter.

    Periods rotate; measures rotate over the eight numbers. A larger number only adds tasks at the end.
    """
    sets = _dimension_sets()
    if number > len(sets):
        raise ValueError(f"{number} tasks: there are only {len(sets)} that all differ")
    rng = random.Random(8)  # noqa: S311
    filters: list[tuple[str, str, tuple[str, ...]]] = []
    while len(filters) < number:
        name, known = list(VALUES.items())[len(filters) % len(VALUES)]
        mode = ("black", "white")[len(filters) // len(VALUES) % 2]
        most = len(known) // 2
        chosen = tuple(sorted(rng.sample(known, rng.randint(1, most) if mode == "black" else most)))
        again = (name, mode, chosen) in filters
        filters.append((name, mode, (*chosen, f"none{len(filters)}") if again else chosen))
    measures = list(NUMBERS.values())
    made = []
    for n, (name, mode, values) in enumerate(filters):
        condition = {
            "extract": {"delimiter": " ", "index": FEW[name]},
            "filter": {"mode": mode, "values": list(values)},
        }
        dimensions = [{"name": d, "extract": {"delimiter": " ", "index": FIELDS[d]}} for d in sets[n]]
        measure = measures[(n + n // len(measures)) % len(measures)]
        task: dict[str, Any] = {
            "name": f"task{n}",
            "topic": "logs",
            "period": PERIODS[(n + n // len(PERIODS)) % len(PERIODS)],
            "where": [condition],
            "dimensions": dimensions,
            "measure": {"delimiter": " ", "index": measure, "type": "number"},
            "metrics": list(metrics),
        }
        made.append(TaskSpec.model_validate(task))
    return made


def active(specs: Sequence[TaskSpec]) -> list[ActiveTask]:
    return [ActiveTask(number, 1, spec) for number, spec in enumerate(specs, 1)]
