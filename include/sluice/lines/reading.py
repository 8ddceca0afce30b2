"""The archive's files in portions, some of them read ahead, by a few threads.

The engine has a fixed cost for each batch, as much as for thousands of lines, and a live topic's files have
hundreds of lines. So the lines of several files are looked at together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import pyarrow as pa

from sluice.lines.pieces import ArchivedPiece
from sluice.state.portions import portions

#: Portions that are read at a time: while one waits for HDFS, another is cut.
THREADS = 4
#: Limits of a portion: files, lines, and bytes of files as they are stored. A single file may have more.
PORTION_FILES, PORTION_LINES, PORTION_BYTES = 32, 32_768, 8 << 20
#: The most bytes of lines that are looked at together.
BATCH_BYTES = 8 << 20

Files = Sequence[ArchivedPiece]
Batches = list[pa.RecordBatch]
Read = Callable[[ArchivedPiece], Iterable[pa.RecordBatch]]
Look = Callable[[pa.RecordBatch], pa.RecordBatch]


def read_ahead(files: Files, read: Read, look: Look) -> Iterator[tuple[Files, Batches]]:
    """The files in portions, in their order, and what `look` makes of their lines.

    `read` and `look` are called by several threads at a time.
    """

    def work(portion: Files) -> tuple[Files, Batches]:
        batches = (batch for file in portion for batch in read(file))
        together = portions(batches, lambda batch: batch.nbytes, BATCH_BYTES)
        return portion, [look(pa.concat_batches(some)) for some in together]

    left = cut(files)
    with ThreadPoolExecutor(THREADS, "lines") as pool:
        ahead: deque[Future[tuple[Files, Batches]]] = deque(
            pool.submit(work, portion) for portion in islice(left, THREADS)
        )
        try:
            while ahead:
                yield ahead.popleft().result()
                ahead.extend(pool.submit(work, portion) for portion in islice(left, 1))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def cut(files: Files) -> Iterator[Files]:
    """The files in portions: each thread's first has one file, so the first lines come at once.

    Each next one has up to twice as many.
    """
    begin = number = 0
    while begin < len(files):
        most = min(PORTION_FILES, 1 << number // THREADS)
        end, lines, size = begin, 0, 0
        while end < min(begin + most, len(files)):
            lines, size = lines + files[end].lines, size + files[end].bytes
            if end > begin and (lines > PORTION_LINES or size > PORTION_BYTES):
                break
            end += 1
        yield files[begin:end]
        begin, number = end, number + 1
