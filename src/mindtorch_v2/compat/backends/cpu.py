"""torch.backends.cpu."""


def get_cpu_capability() -> str:
    """Which instructions the kernels were built for; NumPy chooses its own."""
    return "DEFAULT"
