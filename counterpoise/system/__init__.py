"""What the machine gives: files that are written whole, TOML text, memory. Knows nothing of learning."""
