"""torch.backends.openmp: NumPy is not told to use OpenMP."""


def is_available() -> bool:
    return False
