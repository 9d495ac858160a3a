"""Kernels of each element."""
