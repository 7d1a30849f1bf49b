"""From a config to a run's folder, and back after an interruption."""
