"""An instance's own network: its doors, its way out, and where a connection comes from."""
