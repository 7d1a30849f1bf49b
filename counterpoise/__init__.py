"""Federated learning under class imbalance: methods, baselines, data protocols and honest comparisons."""
