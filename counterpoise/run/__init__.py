"""A run: its config, the simulation that it builds, the loop over rounds, and its folder."""
