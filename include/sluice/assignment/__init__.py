"""Assignment: which member of a consumer group gets which partition.

base: members, partitions, and what is known of their load and speed · weights: that knowledge as whole
numbers · board: who holds what while a plan is made · paths: moves that pay · assign: the algorithm ·
measures: what a plan is worth · cooperative: what may be handed out in each round · observed: loads and
speeds, measured and smoothed. It knows nothing of Kafka's clients.
"""
