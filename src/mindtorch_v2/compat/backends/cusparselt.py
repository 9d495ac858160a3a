"""torch.backends.cusparselt: NumPy is not told to use cuSPARSELt."""


def is_available() -> bool:
    return False
