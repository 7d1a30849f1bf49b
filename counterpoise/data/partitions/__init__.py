"""Ways to cut the training set into clients. A new file here registers itself."""
