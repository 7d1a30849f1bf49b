"""One round of the server: which clients train, which replies are used, how the model is updated."""
