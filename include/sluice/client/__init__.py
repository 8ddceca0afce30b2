"""Results in Python: a small client of the REST API and the SQL endpoint.

It imports nothing of the platform: requests, pyarrow and, for SQL, PyHive are all that it needs.
"""

from sluice.client.client import Client, about
from sluice.client.errors import (
    Broken,
    Busy,
    LoginRefused,
    NotAllowed,
    NotFound,
    Refused,
    SluiceError,
    SqlFailed,
    Unreachable,
)
from sluice.client.models import Event, Task

__all__ = [
    "Broken",
    "Busy",
    "Client",
    "Event",
    "LoginRefused",
    "NotAllowed",
    "NotFound",
    "Refused",
    "SluiceError",
    "SqlFailed",
    "Task",
    "Unreachable",
    "about",
]
