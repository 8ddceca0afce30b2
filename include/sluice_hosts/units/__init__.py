"""Units on hosts: seen, measured, planned by `placement`, and moved.

kinds: what a kind of unit must say and do · agents: Flume's agents as units · jobs: members of jobs as
units · catalogue: the kinds that there
are · groups: which collectors must not share a host · processes, speed: what a host says of its processes and
of itself · answering: whether a host is silent · smoothing, measure: loads, kept in PostgreSQL · failures:
what is avoided · view: hosts and units as a plan sees them · proposals: the plan within the budget ·
carrying: one move · mover: moves side by side · moves: a plan is carried out · explain: why a unit is where
it is · watch: all of it, for ever.
"""
