"""The laboratory of transmission: assignors of consumer groups, computed and on live brokers.

rivals: Kafka's own assignors, asked · scenarios: groups and what happens to them · computed: every assignor
on every scenario · chance: what random ids can make of one · brokers, members, asked: a cluster, its
consumers, and our assignor in them · run: one run on live brokers · ownership: who owns what, and whether the
group is stable · measures: what a run's log says · experiments, runs: what is measured and kept · agreement,
bars: what must hold · figures, computed_tables, live_tables, paper, advice, page: what people read.
"""
