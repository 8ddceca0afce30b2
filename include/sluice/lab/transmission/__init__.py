"""The laboratory of transmission: assignors of consumer groups, computed and on live brokers.

rivals: Kafka's own assignors, asked · scenarios: groups and what happens to them · computed: every assignor
on every scenario · brokers, members, asked: a cluster, its consumers, and our assignor in them · run: one run
on live brokers · measures: what its log says · experiments, bars, page: what is kept, and what people read.
"""
