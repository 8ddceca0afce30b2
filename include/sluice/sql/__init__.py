"""Results as tables of the SQL endpoint: one over all tasks, and one with typed columns for each task."""
