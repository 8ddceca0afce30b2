"""Tasks written as SQL: a SELECT is parsed and compiled to a spec, and never executed."""

from sluice.tasks.sql.compile import compile_sql
from sluice.tasks.sql.statement import SqlRefused

__all__ = ["SqlRefused", "compile_sql"]
