"""Kernels of matrices: products, factorizations, distances."""
