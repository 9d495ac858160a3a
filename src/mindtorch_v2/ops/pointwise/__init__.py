"""Rows of each element."""
