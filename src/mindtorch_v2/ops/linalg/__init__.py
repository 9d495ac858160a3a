"""Rows of linear algebra, products and transforms."""
