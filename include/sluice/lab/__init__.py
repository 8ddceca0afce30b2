"""The laboratory: any strategy, any stream, any cluster; measured, and held against the published figures.

streams, drift, files: where keys come from · clusters: how fast the workers are · simulate: routing, batch by
batch, and what it cost · queueing: how long a tuple waits · tables, plots, page: what people read.
"""
