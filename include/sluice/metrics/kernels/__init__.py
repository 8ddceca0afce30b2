"""Loops over lines and series in machine code (numba): hash, sketch, select.

They do what numpy has no ufunc for. Import a module of this package inside the method that needs it: numba
takes half a second to load, and a process that only counts and sums never loads it. The code is compiled once
a machine and kept beside the source (or where `NUMBA_CACHE_DIR` says).
"""
