"""Jobs on other hosts: each has a shadow here, a process that stands for it.

places: which host each belongs on, and runs on · environment: the settings that a job has there · far: one
job on one host, by its keeper · shadow: what starts, watches and stops it · job_state: what a shadow knows of
it · leftovers: what runs where nobody asked for it · moving, succession: a job goes to another host ·
hosting: all that, for the core.
"""
