"""Clients over a network with Flower: the only package that imports ``flwr``, which is pinned exactly."""

from __future__ import annotations

FLWR = "1.41.0"  # minor versions change ports, transport and commands
