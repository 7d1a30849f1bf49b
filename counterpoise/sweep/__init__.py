"""Sweeps: which runs, in which order, on which machines, and how methods are tuned."""
