"""Several hosts: agents and jobs on other machines than the platform's own.

hosts, placed: what is written of hosts, and of where units belong · links: a host reached over SSH ·
trust: enrolment, certificates, users and their rights · agents: agents on hosts, and their moves · jobs:
archivers and drivers on hosts · emulated: hosts on this machine, for the demo and for tests · units: both as
units that `sluice.placement` distributes · commands: `sluice hosts | jobs | placement`, the demo over hosts.

The core does not import it. It joins by the entry points of the group `sluice` (`agents.hosting`,
`jobs.hosting`).
"""
