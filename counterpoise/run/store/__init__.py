"""A run's folder: logs, checkpoints, record and summary."""
