"""Automatic differentiation: torch.autograd's names."""
