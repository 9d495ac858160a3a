"""Rows that read and write at positions."""
