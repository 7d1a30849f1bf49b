"""Clients over a network by Flower: the only package that imports ``flwr``, which is pinned exactly."""
