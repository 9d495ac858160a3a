"""Rows that make tensors of the kind of another one: steps of their own while a recorder is on."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch.inside import as_new, inside
from ...dispatch.op import composite
from .fill import _empty_strided, _fill_inside, _zero_inside, empty_inside, fill_

_NEW = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor"


def _new_row(name: str, fill: Any, value: str = "") -> Any:
    """The row of `new_…`: empty memory of the kind of a tensor, then its contents."""

    def make_new(self: Tensor, size: Any, *given: Any) -> Tensor:
        dtype, _, device, _ = given[-4:]
        if fill is None:
            made: Tensor = empty_inside(size, dtype or self.dtype, None, device or self.device, False, None)
            return made
        return as_new(fill(_new_empty_inside(self, size, dtype, None, device, False), *given[:-4]))

    return composite(f"new_{name}(Tensor self, int[] size, {value}{_NEW}", method=False)(make_new)


@composite(f"new_empty_strided(Tensor self, int[] size, int[] stride, {_NEW}", method=False)
def _new_empty_strided(self: Tensor, size: Any, stride: Any, dtype: Any, layout: Any, device: Any, pin: Any) -> Tensor:
    return _empty_strided.function(size, stride, dtype=dtype or self.dtype, device=device or self.device)


new_empty_strided = _new_empty_strided.function

_new_empty = _new_row("empty", None)
_new_empty_inside = inside(_new_empty)

NEW: dict[str, Any] = {
    "empty": _new_empty.function,
    "zeros": _new_row("zeros", lambda made: _zero_inside(made)).function,
    "ones": _new_row("ones", lambda made: _fill_inside(made, 1.0)).function,
    "full": _new_row("full", lambda made, value: fill_(made, value), "Scalar fill_value, ").function,
}
