"""Benchmarks: every bar is a ratio (or a rate) measured inside one run. ``python -m tests.bench --help``.

A bench compares *contenders* on the same input. They are first shown to compute the same, then timed in
interleaved rounds, so that a machine that slows down slows all of them; a bar is the median of the rounds'
ratios. Outcomes go to ``var/bench/<bench>.json``, a list of bars, and to ``var/bench/measured/``, everything
that `page.py` makes docs/performance.md of.
"""
