"""The daemons, one module a service."""
