"""Kernels that read and write at positions."""
