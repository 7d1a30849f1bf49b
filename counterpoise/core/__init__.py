"""What a method is made of: trees, random streams, parts, messages. No input or output, no data, no models."""
