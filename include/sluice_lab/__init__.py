"""The laboratory measures any strategy on any stream and any cluster.

Its figures are compared with the published ones.

streams, drift, files: where keys come from · clusters: how fast the workers are · simulate: routing, batch by
batch, and what it costs · queueing: how long a tuple waits · tables, plots, page: what people read.
transmission, placement: the other experiments · bench: the benches of the platform · browser: the console in
a real one · ports, waiting: for daemons of one's own, and for conditions.
"""
