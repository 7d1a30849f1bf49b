"""Named methods: a few lines each, with paper, formula and defaults. A new file here registers itself."""
