"""Imbalances of the training set. A new file here registers itself."""
