"""Which of a key's candidates takes this tuple.

Each selection is a compiled function (candidates, count, load, state) -> position in `candidates`; `load` is
the source's own view of its workers (`load`). They are arguments of the one routing loop (`routing`).
"""

from __future__ import annotations
