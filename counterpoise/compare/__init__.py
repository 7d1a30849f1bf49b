"""From many runs to a table one can publish."""
