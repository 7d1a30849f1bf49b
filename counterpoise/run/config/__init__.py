"""The experiment file."""
