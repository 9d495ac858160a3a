"""New tensors made of a tensor or its class: `new_zeros` and its kind, and the legacy constructor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import device as _device
from ..core import dtype as _dtype
from ..core import tap
from ..core.dtype import dtype as DType
from ..core.size import Size
from ..core.tensor import FAST, Tensor, alias, new
from ..dispatch.codegen import MISSING
from ..kernels.fitting import fitting
from ..ops.creation import convert, fill
from ..ops.creation import new as new_rows
from . import aliases
from .methods import as_subclass, detach, method
from .storage import UntypedStorage


def _quick_new(self: Tensor, size: tuple[Any, ...], value: Any) -> Tensor | None:
    """A new tensor of a plain size; None where anything else was given."""
    if value is MISSING:  # is given behind the size
        *size_given, value = size or (MISSING,)
        if len(size) != 2 or type(value) not in (int, float):
            return None
        size, value = tuple(size_given), fitting(value, self._a.dtype)
    if len(size) == 1 and type(size[0]) is tuple:
        size = size[0]
    elif not size:
        return None
    return fill.quick(size, self._a.dtype, value)


def _new(factory: str, value: Any) -> None:
    def new_filled(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                   layout: Any = None, pin_memory: bool = False, **kw: Any) -> Tensor:  # fmt: skip
        if layout is not None or pin_memory is not False:
            _device.check_options(f"new_{factory}", layout, pin_memory, self.device if device is None else device)
        if type(self) in FAST and dtype is device is None and not (kw or requires_grad or tap.NAMESPACE["HOOK"]):
            made = _quick_new(self, size, value)
            if made is not None:
                return made
        if tap.SLOT.recorder is not None:
            return _recorded_new(factory, self, size, kw, dtype, device, requires_grad)
        function = getattr(fill, factory) if factory != "empty" else fill._public_empty
        where = self.device if device is None else device
        return function(*size, dtype=self.dtype if dtype is None else dtype, device=where,
                        requires_grad=requires_grad, **kw)  # fmt: skip

    new_filled.__name__ = new_filled.__qualname__ = f"new_{factory}"
    setattr(Tensor, f"new_{factory}", new_filled)


def _recorded_new(
    factory: str, self: Tensor, given: tuple[Any, ...], kw: dict[str, Any], dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    """A new tensor made in the steps that torch records."""
    size = kw.pop("size") if "size" in kw else given[0] if factory == "full" or len(given) == 1 else given
    if factory == "full":
        value = kw.pop("fill_value") if "fill_value" in kw else given[-1]
        made = new_rows.NEW[factory](self, size, value, dtype=dtype, device=device, **kw)
    else:
        made = new_rows.NEW[factory](self, size, dtype=dtype, device=device, **kw)
    return made.requires_grad_(requires_grad) if requires_grad else made


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", None), ("full", MISSING)):
    _new(_name, _value)


@method
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return convert.tensor(data, dtype=self.dtype if dtype is None else dtype,
                          device=self.device if device is None else device, requires_grad=requires_grad)  # fmt: skip


@method
def new_empty_strided(self: Tensor, size: Any, stride: Any, dtype: Any = None, device: Any = None, layout: Any = None,
                      pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    if layout is not None or pin_memory is not False:
        _device.check_options("new_empty_strided", layout, pin_memory, self.device if device is None else device)
    made: Tensor = new_rows.new_empty_strided(self, size, stride, dtype=dtype, device=device)
    return made.requires_grad_(requires_grad) if requires_grad else made


def legacy(args: tuple[Any, ...], d: DType) -> Tensor:
    """What `torch.Tensor(2, 3)`, `torch.Tensor([1, 2])` and `torch.Tensor()` are."""
    if args and type(args[0]) is int and not tap.NAMESPACE["HOOK"]:
        blank = fill.quick(args, d.np, None)
        if blank is not None:
            return blank
    sizes: Any = args or (0,)
    if len(args) == 1 and not isinstance(args[0], (int, np.integer)):
        sizes = args[0]
        if isinstance(sizes, UntypedStorage):
            return alias(sizes._owner.reshape(-1).view(d.np), aliases.beside(sizes._token))
        if not isinstance(sizes, Size):
            return convert.copied(sizes, d, None)
    return fill.empty(tuple(int(n) for n in sizes), dtype=d, device=_device.CPU)


def _tensor_new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """The legacy constructor: sizes or data, in the default dtype."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return as_subclass(detach(args[0]), cls)
    t = new(cls)
    made = legacy(args, _dtype.get_default_dtype())
    t._a, t._ag, t._view, t._v = made._a, None, None, made._v
    return t


Tensor.__new__ = staticmethod(_tensor_new)  # type: ignore[method-assign]


@method
def new_legacy(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    return legacy(args, self.dtype)


Tensor.new = Tensor.__dict__["new_legacy"]  # type: ignore[attr-defined]
del Tensor.new_legacy  # type: ignore[attr-defined]
