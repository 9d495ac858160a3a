"""torch.backends.nnpack: NumPy is not told to use NNPACK."""


def is_available() -> bool:
    return False
