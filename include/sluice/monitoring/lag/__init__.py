"""Lag: how far each of the platform's consumers is behind, and what its group's rebalances cost.

model: what is shown, and the sums · look: one look at Kafka, the database and the jobs · cost: how long
partitions stood still
"""
