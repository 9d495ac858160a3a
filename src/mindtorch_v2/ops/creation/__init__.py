"""Rows that make tensors."""
