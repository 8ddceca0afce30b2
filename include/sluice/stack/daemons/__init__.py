"""The daemons, one module for each service."""
