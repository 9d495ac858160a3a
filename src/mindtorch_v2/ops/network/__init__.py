"""Rows of the operators of networks."""
