"""Paper 004's experiment with real units: Flume collectors on emulated hosts, moved while lines come.

scenarios: what is tried, and at which scale · apart: processes and a network of the laboratory's own · bed:
Kafka, PostgreSQL, hosts and agents · placing: what the DAG `placement` runs · writing, arrivals: lines that
are written, and when each came into Kafka · watching: how long a unit that moves takes nothing · run: one run
· measures: its rows · experiments: all runs, kept one by one · section, bars: what people read.
"""
