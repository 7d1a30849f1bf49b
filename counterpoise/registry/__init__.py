"""Named factories, and the one validator of what users give them."""
