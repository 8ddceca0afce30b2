"""The errors of one agent, wherever it runs."""

from __future__ import annotations


class AgentError(RuntimeError):
    """An agent could not be started, stopped or rewound."""


class EnrolError(AgentError):
    """A host cannot be enrolled, or is not."""
