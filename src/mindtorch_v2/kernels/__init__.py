"""NumPy kernels: pure functions from ndarrays to ndarrays, forward and backward, without Tensor or autograd."""
