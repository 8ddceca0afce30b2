"""Emulated hosts: SSH servers on addresses of this machine, each with a home and processes of its own."""
