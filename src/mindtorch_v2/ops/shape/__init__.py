"""Rows of views, and of other shapes and orders of the same elements."""
