"""Combine: a source aggregates a batch by itself and sends one partial result a key, to the key's worker.

What Spark does before its shuffle for sum, count, min, max and avg: a hot key costs one row a source, and no
grouping of tuples can send fewer. It takes the place of grouping where combining early is cheap. No
parameters. The router is key grouping's and routes what is sent, one row for each distinct key of a batch;
`combines` tells who feeds it. Cost: a hash a row sent, and the aggregation of every tuple at the source.
Memory: as many partial states at a source as a batch has keys there; one replica a key at the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sluice.grouping.key import Key


@dataclass(frozen=True)
class Combine(Key):
    name: ClassVar[str] = "combine"
    combines: ClassVar[bool] = True
