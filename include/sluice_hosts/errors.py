"""The errors of hosts."""

from __future__ import annotations

from sluice.collection.errors import AgentError


class EnrolError(AgentError):
    """A host cannot be enrolled, or is not."""
