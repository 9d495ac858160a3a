"""Kernels of the operators of networks."""
