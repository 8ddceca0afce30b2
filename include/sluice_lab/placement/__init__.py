"""The laboratory of placement: paper 004's experiment, rival schedulers and an optimum.

rivals: Storm's, Spark's, Flink's schedulers and R-Storm's, by their rules · optimum: integer programs ·
exact, kernels: branch and bound · distance: how far greedy steps, ours and the lower bound are from it ·
inputs: the paper's cluster and random ones · computed: every contender on every input · experiments, bars,
page: what is kept, and what people read · live: the experiment with real units that move while lines come;
everything else is computed.
"""
