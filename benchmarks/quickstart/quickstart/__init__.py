"""FedAvg in the way of Flower's quickstart, on the model and data of `benchmarks/flower.py`."""
