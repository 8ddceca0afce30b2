"""Two stages instead of one: lines become tuples where they are, and workers aggregate the tuples.

For a task that is *routed*, a source (a slice of the batch, as a rule one partition of the topic) sends each
line that the task counts as a tuple (period, key, measure) to the worker that the task's strategy names
(`sluice.grouping`); the workers aggregate, and the driver merges as always. A *combined* task is aggregated
where its lines are, as is everything when no task is routed. So the results are the same whatever the
strategy: it decides where an accumulator adds a line, never what it adds.

- `tuples`: what a source sends; `routes`: by which routers, made by the driver for a batch;
- `worker`: the second stage; `spent`: what the stages say of the time that they took;
- `groupings`: the driver's memory from batch to batch, with `times`, `imbalances` and `hot_keys`;
- `report`: what of it is shown.
"""
