"""A measure as text, kept as a dictionary: each distinct text is read once a batch."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics.packed import buffers
from sluice.runtime.arrays import Bools, Hashes, Int32s, Ints

#: Texts that mean there is no measure: Apache writes "-".
ABSENT = ("", "-")
#: The most bytes of a text that is kept. Longer texts that differ stay apart, because each ends in its hash.
MAX_BYTES = 240
_KEPT = MAX_BYTES - len("...#") - 16


class Texts:
    """A measure of all lines of a batch as the text that was cut out of them."""

    def __init__(self, codes: Ints | Int32s, distinct: pa.Array) -> None:
        """`codes`: each line's index in `distinct` (string, no nulls), or `len(distinct)`: none."""
        self.codes, self.distinct = codes, distinct

    @cached_property
    def known(self) -> Bools:
        """Whether each distinct text is a measure; the last entry, "nothing there", is not."""
        absent = pc.is_in(self.distinct, pa.array(ABSENT, self.distinct.type))
        return np.append(~absent.to_numpy(zero_copy_only=False), False)

    @cached_property
    def present(self) -> Bools:
        """Whether each line has a measure."""
        return self.known[self.codes]

    @cached_property
    def complete(self) -> bool:
        return bool(self.present.all())

    @cached_property
    def hashes(self) -> Hashes:
        """XXH64 of each distinct text."""
        from sluice.metrics.kernels.hashing import hash_all

        return hash_all(*buffers(self.distinct))

    @cached_property
    def short(self) -> Texts:
        """The texts as accumulators keep them.

        A text over `MAX_BYTES` is cut between characters and ends in its hash.
        """
        long = pc.greater(pc.binary_length(self.distinct), MAX_BYTES)
        if not pc.any(long).as_py():
            return self
        numbers = self.hashes[long.to_numpy(zero_copy_only=False)].tolist()
        cut = [
            f"{text.encode()[:_KEPT].decode(errors='ignore')}...#{number:016x}"
            for text, number in zip(self.distinct.filter(long).to_pylist(), numbers, strict=True)
        ]
        distinct = pc.replace_with_mask(self.distinct, long, pa.array(cut, self.distinct.type))
        return Texts(self.codes, distinct)
