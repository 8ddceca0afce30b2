"""Sluice: one definition of a statistic, counted online within seconds and offline exactly."""
