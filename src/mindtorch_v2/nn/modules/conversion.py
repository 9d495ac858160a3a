"""How modules take over other tensors when they are cast, moved or loaded: `torch.__future__`."""

from __future__ import annotations


class _Chosen:
    """What programs have set."""

    overwrite = False
    swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether casting or moving a module gives it new parameters instead of new memory for those it has."""
    _Chosen.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    return _Chosen.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether casting, moving or loading a module exchanges what its parameters are, by `swap_tensors`, instead of
    changing their memory. It counts before `set_overwrite_module_params_on_conversion`."""
    _Chosen.swap = value


def get_swap_module_params_on_conversion() -> bool:
    return _Chosen.swap
