"""The whole matrix of attacks on a running platform: ``make attack``."""
