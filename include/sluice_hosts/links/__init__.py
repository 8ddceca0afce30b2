"""A host reached over SSH.

ssh, ssh_loop, ssh_files: the connection · keeper: the script that keeps one process on the host · copying,
readable, release, requirements: what is brought there, and what must be there.
"""
