"""Tables: files read as text, and the one encoder that turns their columns into model inputs."""
