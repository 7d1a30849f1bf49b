"""Ideas that several methods share, grouped by where they act. A new file here registers itself."""
