"""Tables and pictures of what runs came to."""
