"""Ways to split the training set among clients. A new file here registers itself."""
