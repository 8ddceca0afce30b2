"""Flume's agents on hosts.

ssh_machine: a host, as the core asks for a `Machine` · bundle: what an agent has there · addresses: what
edges are told of collectors · granting: rights in Kafka, as they are needed · relocation, moving, remnants:
a collector goes to another host · forgetting: a host is given up · hosting: all that, for the core.
"""
