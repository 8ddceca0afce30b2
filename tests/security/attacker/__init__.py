"""A hostile user of the same machine: ``python -m attacker < target.json`` (see `target`)."""
