"""A run: its config, the simulation that it builds, the rounds to its end, and the folder it lies in."""
