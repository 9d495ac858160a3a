"""torch.backends.mkl: NumPy is not told to use MKL."""


def is_available() -> bool:
    return False


class verbose:
    """`with torch.backends.mkl.verbose(...)` prints nothing: there is nothing to report."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> "verbose":
        return self

    def __exit__(self, *exc: object) -> None:
        pass
