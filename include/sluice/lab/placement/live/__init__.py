"""Paper 004's experiment with real units: Flume collectors on emulated hosts, moved while lines come.

scenarios: what is tried, and at which scale · apart: processes and a network of the laboratory's own · bed:
Kafka, hosts and agents · writing, arrivals: lines that are written, and when each came into Kafka · watching:
how long a unit that moves takes nothing · run: one run · measures: its rows · experiments: all runs, kept one
by one · figures, section, bars: what people read.
"""
