"""The errors of agents, wherever they run."""

from __future__ import annotations

from sluice.collection.metrics import MetricsUnreachable


class AgentError(RuntimeError):
    """An agent could not be started, stopped or rewound."""


class HostUnreachable(MetricsUnreachable):
    """A host does not answer. Nothing is known of its agents; they may well run."""


class HostListError(ValueError):
    """What is written down of the hosts cannot be used."""
