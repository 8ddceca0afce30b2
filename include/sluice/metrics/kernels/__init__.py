"""Loops over lines and series in machine code (numba), for what numpy has no ufunc: hash, sketch, select.

Import a module of this package inside the method that needs it: numba takes half a second to load, and a
process that counts and sums alone never does. The code is compiled once a machine and kept beside the
source (`NUMBA_CACHE_DIR` says where else).
"""
