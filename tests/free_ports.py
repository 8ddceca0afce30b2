"""Ports that a test's own daemons may have: the laboratory finds them."""

from sluice_lab.ports import free_ports, port_base

__all__ = ["free_ports", "port_base"]
