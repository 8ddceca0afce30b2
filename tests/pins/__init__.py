"""Compares all that is pinned with known advisories, offline: ``python -m tests.pins``, or ``make audit``."""
