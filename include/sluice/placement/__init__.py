"""Placement: which unit runs on which host, and what moves when hosts come, go or get uneven.

base: hosts, units and who runs where · usage: slot usage, and paper 004's placement · migration: the paper's
migration, and the same with HDFS's pairing · weights, board, greedy, branch, plan: Sluice's own · settled: a
plan after which nothing else moves · steps: what may move at the same time · measures: what a placement is
worth, and how even one can be at best. It knows nothing of how a unit is started or stopped.
"""
