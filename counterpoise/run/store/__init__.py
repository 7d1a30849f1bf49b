"""A run's folder: its logs, checkpoints, record and summary."""
