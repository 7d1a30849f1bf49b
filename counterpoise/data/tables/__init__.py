"""Tables: files read as text, and the one encoder that makes model inputs of their columns."""
