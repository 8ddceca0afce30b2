"""A log-in that an identity provider or a directory cannot end well."""

from __future__ import annotations


class ProviderRefusal(Exception):
    """The person does not get in; the message, which the person reads, says why and what to do."""


class ProviderAway(Exception):
    """The provider or directory gave no answer that can be used; the message says which and why."""
