"""Data sets by name, one module per file format. A new file here registers itself."""
