"""Shapes and dtypes of results on the meta device."""
