"""Kernels of our own for a GPU; they need Triton, which comes with torch for CUDA."""
