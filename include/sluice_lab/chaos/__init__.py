"""Faults drawn by chance, in a platform that counts lines meanwhile, and what became of each line."""
