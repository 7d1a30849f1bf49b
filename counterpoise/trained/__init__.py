"""A finished run in use: loaded, asked for predictions, exported."""
