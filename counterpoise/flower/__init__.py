"""Clients over a network with Flower; ``flwr`` is pinned exactly. Beside this package only contracts import it."""

from __future__ import annotations

FLWR = "1.41.0"  # minor versions change ports, transport and commands
