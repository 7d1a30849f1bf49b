"""Models by name. A new file here registers itself."""
