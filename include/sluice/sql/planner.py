"""Everything that planning or reading a statement loads, for processes that are forked.

The processes that plan are forked from Spark's own daemon, for which no other module can be named. It loads
this module by a ``sitecustomize`` in its path (`stack.daemons.hive`). Otherwise each planner that is forked
after a minute without statements would load it again, for a second of CPU time.
"""

from __future__ import annotations

import pandas  # noqa: F401 - Spark's workers import it
import psycopg2  # noqa: F401
import pyspark.sql.worker.data_source_pushdown_filters  # noqa: F401

import sluice.results.layers
import sluice.results.reader
import sluice.sql.columns
import sluice.sql.data_source
import sluice.sql.pushdown
import sluice.sql.shares  # noqa: F401
from sluice.runtime import garbage

garbage.loaded()
