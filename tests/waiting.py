"""Waiting for a condition: the one way in which tests wait is the laboratory's."""

from sluice_lab.waiting import SECONDS, until

__all__ = ["SECONDS", "until"]
