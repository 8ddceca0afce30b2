"""The experiments that docs/grouping.md reports; docs/grouping keeps their rows as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sluice import grouping
from sluice.runtime.arrays import Hashes
from sluice.runtime.settings import ROOT
from sluice.traffic import edu
from sluice_lab import named, papers
from sluice_lab.drift import Drift, Kind
from sluice_lab.saved_rows import keep
from sluice_lab.saved_rows import kept as kept_rows
from sluice_lab.simulate import simulate
from sluice_lab.streams import edu_stream, isp_stream, zipf_stream
from sluice_lab.trials import Row, Setting, rows, run, waits

FOLDER = ROOT / "docs" / "grouping"

WIDTHS = (5, 10, 20, 50, 64, 100, 1000)
EXPONENTS = (0.5, 1.0, 1.2, 1.4, 1.7, 2.0)
TUPLES = 1_000_000
KEYS = 1_000_000
KG2_FINER = "kg2, s = 1/(5W)"
COST_BATCHES = 5
SEEDS = 10
DRIFT_BATCHES, DRIFT_AT = 8, 3.5
UNEQUAL = ("slow", "spread", "network")
PARALLELISM = 12  # paper 001's figures 8 and 9
UTILISATIONS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
MEMORY_WORKERS = 32  # paper 000's figure 6
MEMORY_STRATEGIES = ("shuffle", "pkg", "kg2", "planned", "key")
_MEMORY_BATCH = 2_000_000


def balance(scale: float) -> Iterator[Row]:
    """Every strategy on EDU and ISP at every width; also KG2 with a support that follows it."""
    for stream, workers in itertools.product((edu_stream(), isp_stream()), WIDTHS):
        setting = Setting(stream, workers, tuples=_part(TUPLES, scale))
        yield from _last_batches(setting)
        support = 1 / (5 * workers)
        finer = f"kg2:support={support:g}:error={support / 10:g}"
        yield rows(finer, setting, run(finer, setting))[-1] | {"strategy": KG2_FINER}


def table_2(scale: float) -> Iterator[Row]:
    """Paper 000's table 2 with ten seeds: balance depends on where a hash sends the top keys."""
    for stream, workers, seed in itertools.product((edu_stream(), isp_stream()), papers.WIDTHS, range(SEEDS)):
        setting = Setting(stream, workers, batches=1, tuples=_part(TUPLES // 4, scale), seed=seed)
        keys = setting.keys()
        for strategy in papers.STRATEGIES:
            yield from rows(strategy, setting, run(strategy, setting, keys))


def cost(scale: float) -> Iterator[Row]:
    """Routing by one source, in several batches; the quickest was disturbed least."""
    setting = Setting(edu_stream(), sources=1, batches=COST_BATCHES, tuples=_part(TUPLES, scale))
    for strategy, keys in _each(setting):
        yield from rows(strategy, setting, run(strategy, setting, keys))


def skew(scale: float) -> Iterator[Row]:
    """Every strategy under Zipf's law, from almost even to almost one key."""
    for z in EXPONENTS:
        setting = Setting(zipf_stream(z, _part(KEYS, scale)), tuples=_part(TUPLES, scale))
        yield from (row | {"z": z} for row in _last_batches(setting))


def drift(scale: float) -> Iterator[Row]:
    """Every batch; in the middle of one the hot key moves, or another one appears."""
    kinds: tuple[Kind, ...] = ("move", "appear")
    for kind in kinds:
        stream = Drift(edu_stream(), kind, at=DRIFT_AT)
        setting = Setting(stream, batches=DRIFT_BATCHES, tuples=_part(TUPLES // 2, scale))
        for strategy, keys in _each(setting, combining=False):
            yield from rows(strategy, setting, run(strategy, setting, keys))


def speeds(scale: float) -> Iterator[Row]:
    """Workers of unequal speed."""
    for times, workers in itertools.product(UNEQUAL, (PARALLELISM, 64)):
        yield from _last_batches(Setting(edu_stream(), workers, times, tuples=_part(TUPLES, scale)))


def latency(scale: float) -> Iterator[Row]:
    """Waiting at workers of unequal distance, by utilisation."""
    stream = zipf_stream(1.0, _part(KEYS, scale))
    setting = Setting(stream, PARALLELISM, "network", tuples=_part(TUPLES, scale))
    for strategy, keys in _each(setting, combining=False):
        yield from waits(strategy, setting, run(strategy, setting, keys), UTILISATIONS)


def memory(scale: float) -> Iterator[Row]:
    """State while EDU's 32 M visits come, at ever longer intervals and then at equal ones."""
    stream = edu_stream()
    visits = _part(edu.VISITS, scale)
    totals = [visits // step for step in (32_000, 10_000, 3_200, 1_000, 320, 100, 32, 10)]
    totals += range(_MEMORY_BATCH * 2, visits + 1, _MEMORY_BATCH)
    sizes = [after - before for before, after in itertools.pairwise([0, *totals])]
    setting = Setting(stream, MEMORY_WORKERS)

    def keys() -> Iterator[Hashes]:
        return (stream.batch(number, size) for number, size in enumerate(sizes))

    for strategy in MEMORY_STRATEGIES:
        found = simulate(named.strategy(strategy), keys(), setting.cluster(), sources=setting.sources)
        yield from rows(strategy, setting, found)


EXPERIMENTS: dict[str, Callable[[float], Iterator[Row]]] = {
    each.__name__: each for each in (balance, table_2, cost, skew, drift, speeds, memory, latency)
}


def measure(name: str, folder: Path = FOLDER, scale: float = 1.0) -> Path:
    """Run an experiment and keep its rows in a file; returns the file's path.

    scale: the part of its tuples and keys, 0 < scale <= 1.
    """
    if not 0 < scale <= 1:
        raise ValueError(f"scale: {scale:g}; it must be above 0 and at most 1")
    found = list(EXPERIMENTS[name](scale))
    return keep(name, found, folder)


def kept(name: str, folder: Path = FOLDER) -> list[Row]:
    """The rows that an experiment found when it was last run."""
    return kept_rows(name, folder)


def _last_batches(setting: Setting) -> Iterator[Row]:
    for strategy, keys in _each(setting):
        yield rows(strategy, setting, run(strategy, setting, keys))[-1]


def _each(setting: Setting, *, combining: bool = True) -> Iterator[tuple[str, Sequence[Hashes]]]:
    """Every strategy, with the batches that all of them get.

    combining: also strategies that send partial results, which come at a batch's end and not tuple by tuple.
    """
    keys = setting.keys()
    for name, strategy in grouping.STRATEGIES.items():
        if combining or not strategy.combines:
            yield name, keys


def _part(of: int, scale: float) -> int:
    return max(int(of * scale), 1)
