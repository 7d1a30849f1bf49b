"""Finished runs, read and compared: cells, pairs, tests, ranks. Neither draws nor runs anything."""
