"""Combine: a source aggregates its batch and sends each key's worker one partial result.

Spark does this before its shuffle for sum, count, min, max and avg. A hot key costs one row a source, and no
grouping of tuples can send fewer. Combine takes the place of grouping where combining early is cheap. No
parameters. The router is key grouping's. It routes what is sent, one row for each distinct key of a batch;
`combines` tells this to the code that feeds it. Cost: a hash for each row sent, and the aggregation of every
tuple at the source. Memory: as many partial states at a source as a batch has keys there; one replica a key
at the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sluice.grouping.key import Key


@dataclass(frozen=True)
class Combine(Key):
    name: ClassVar[str] = "combine"
    combines: ClassVar[bool] = True
