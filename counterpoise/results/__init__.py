"""Finished runs, read and compared: cells, pairs, tests, ranks. Draws nothing and runs nothing."""
