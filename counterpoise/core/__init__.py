"""Types and trees only: no input or output, no data, no models."""
