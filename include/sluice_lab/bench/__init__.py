"""Benchmarks, in which every bar is a ratio (or a rate) measured inside one run.

``python -m sluice_lab.bench --help`` shows how to run them.

A bench compares *contenders* on the same input. They are first shown to compute the same. Then they are timed
in interleaved rounds, so that a machine that slows down slows all of them. A bar is the median of the rounds'
ratios. The bars go to ``var/bench/<bench>.json``, a list; everything that `page.py` needs to make
docs/performance.md goes to ``var/bench/measured/``.
"""
