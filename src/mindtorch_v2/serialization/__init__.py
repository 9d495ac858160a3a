"""torch.serialization: saving to and loading from torch's checkpoint files."""

from .names import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .reading import load
from .writing import save

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]
