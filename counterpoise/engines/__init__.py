"""Interchangeable ways to answer a server's questions."""
