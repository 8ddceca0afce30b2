"""Streams read from files: an access log, or any text with a key in each line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sluice.engine.extract import BatchLines
from sluice.metrics.kernels.hashing import hash_all
from sluice.runtime.arrays import Hashes
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TopicSpec
from sluice.traffic.replay import read_lines
from sluice_lab.streams import NoSuchStream, Stream


@dataclass(frozen=True, eq=False)
class Recorded(Stream):
    """Recorded keys, in their order.

    After its last key the stream begins again. A seed changes nothing.
    """

    name: str
    keys: Hashes

    def batch(self, number: int, n: int, *, seed: int = 0) -> Hashes:
        return self.keys[(number * n + np.arange(n)) % len(self.keys)]


def recorded(path: Path, extract: Extract | None = None) -> Recorded:
    """The keys of a file's lines, plain or .gz, hashed by XXH64.

    extract: how the key is cut out of a line, as for a task's dimensions; named fields are those of an access
    log. None: the line is the key. Lines without a key are left out. Raises NoSuchStream if no line has a
    key, ReplayError if the file is missing or damaged.
    """
    lines = pa.array(read_lines(path), pa.binary())
    values = BatchLines(lines, {}, TopicSpec()).values(extract or Extract(regex="^.*$"))
    distinct = values.distinct.to_pylist()
    texts = [text.encode() for text in distinct]
    bounds = np.cumsum([0, *map(len, texts)])
    hashes = hash_all(np.frombuffer(b"".join(texts), np.uint8), bounds)
    keys = hashes[values.codes[values.codes < len(texts)]]
    if not len(keys):
        raise NoSuchStream(f"{path}: no line has a key; {len(lines):,} lines were read")
    return Recorded(f"file:{path}", keys)
