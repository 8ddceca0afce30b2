"""Two stages instead of one: sources turn lines into tuples, which workers aggregate.

For a task that is *routed*, a source (a slice of the batch, as a rule one partition of the topic) turns each
line that the task counts into a tuple (period, key, measure). It sends the tuple to the worker that the
task's strategy names (`sluice.grouping`). The workers aggregate, and the driver merges as always. A
*combined* task is aggregated where its lines are; without a routed task everything is. The results do not
depend on the strategy: it decides where an accumulator adds a line, never what it adds.

- `engine.tuples`: what a source sends; `routes`: the routers that it uses, made by the driver for a batch;
- `worker`: the second stage; `job`: both stages as a Spark job; `engine.spent`: the time that they took;
- `topic_routing`, `task`: the driver's memory from batch to batch, with `batches`, `times`, `imbalances` and
  `hot_keys`;
- `report`: what is shown of it.
"""
