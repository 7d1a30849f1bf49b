"""Atomic file writes, locks, TOML text, free memory. Knows nothing of learning."""
