"""One client's round: its plan, its steps, its gradients, and what it measures."""
