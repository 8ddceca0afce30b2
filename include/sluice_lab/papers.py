"""The figures that the papers print of their experiments, for comparison with ours."""

from __future__ import annotations

STRATEGIES = ("shuffle", "kg2", "key")
WIDTHS = (5, 10, 20, 50)

WORKERS = 64  # paper 000 has 8 machines of 8 workers; for tables with a single number of workers
MOST_WORKERS = 1_000  # ours; the papers stop at 50

#: Paper 000, table 2: imbalance by data set, strategy and number of workers; it does not say in what unit.
IMBALANCE: dict[str, dict[str, tuple[float, ...]]] = {
    "edu": {
        "shuffle": (0.70, 0.93, 1.28, 1.89),
        "kg2": (0.80, 1.22, 1.44, 2.11),
        "key": (1.52, 1.74, 2.06, 2.17),
    },
    "isp": {
        "shuffle": (0.45, 0.71, 1.25, 2.07),
        "kg2": (0.52, 0.53, 1.34, 2.07),
        "key": (3.28, 3.20, 3.79, 4.10),
    },
}
#: Paper 000, figure 6: KG2's memory over shuffle's, 32 workers.
MEMORY = 0.45
#: Paper 000, figure 7: KG2's throughput over key's; shuffle's is about the same as KG2's.
THROUGHPUT = 1.4
#: Paper 001, figures 6 and 7, at parallelism 12: TAG's throughput over DAG's, TAG's mean latency over NAG's.
TAG_THROUGHPUT = 1.1
TAG_LATENCY = 0.67
