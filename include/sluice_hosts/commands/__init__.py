"""`sluice hosts`, `sluice jobs`, `sluice placement`, and the demo over several hosts."""
