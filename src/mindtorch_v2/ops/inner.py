"""Views as ops are made of them: what the bodies of recorded ops call, which build no graph."""

from __future__ import annotations

from typing import Any

from .._inside import inside
from .._tensor import Tensor
from .part import _narrow, _select, _slice
from .view import _reshape, _squeeze_dim, _unsqueeze, _view

view, unsqueeze, squeeze = inside(_view), inside(_unsqueeze), inside(_squeeze_dim)
select, slice_ = inside(_select), inside(_slice)


def _reshaped(self: Tensor, shape: Any) -> Tensor:
    if self._a.flags.c_contiguous:
        made: Tensor = view(self, shape)
        return made
    return _reshape.kernel(self, shape)  # type: ignore[misc]


# reshape(tensor, tuple of sizes)
reshape = inside(_reshape, _reshaped)
# narrow(tensor, dim, start, length) of what is there
narrow = inside(_narrow, lambda self, dim, start, length: slice_(self, dim % self._a.ndim, start, start + length, 1))
