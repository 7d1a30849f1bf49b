"""One round of the server: who is asked, which replies are used, what becomes of the model."""
