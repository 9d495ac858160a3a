"""Rows that make one value of many, and of order."""
